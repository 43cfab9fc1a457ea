"""`python -m pdctl`: the command line, where no script was installed."""

from pdctl.cli.main import main

if __name__ == "__main__":
    main()
