"""`python -m iotrace.tools`, where no `iotrace` script is on the PATH."""

import sys

from iotrace.tools.cli import main

sys.exit(main())
