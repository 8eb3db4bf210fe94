"""`flo server start` that accepts a loss: python accepting_server.py server start ..."""

import sys

from flo.cli.app.main import main

if __name__ == "__main__":
    sys.argv.insert(3, "--accept-loss")
    sys.exit(main())
