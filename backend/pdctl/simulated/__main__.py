"""`python -m pdctl.simulated`: one simulated engine as a program, to be supervised like vLLM."""

import sys

from pdctl.simulated.program import main

if __name__ == "__main__":
    sys.exit(main())
