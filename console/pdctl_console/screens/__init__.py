"""One module per screen.

Law: a screen draws the app's `ViewState` and turns keys into the app's verbs.
"""
