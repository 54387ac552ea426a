"""The compiled replay loop, see csrc/loop_api.h."""

from typing import Any

ffi: Any
lib: Any
