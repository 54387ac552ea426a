"""Watch a job; what those who import us need most often."""

from iotrace.capture.session import Captured, CaptureOptions, capture, recover

__all__ = ["CaptureOptions", "Captured", "capture", "recover"]
