"""What can go wrong, by kind. All are ``HeadwaterError`` and so ``RuntimeError``."""


class HeadwaterError(RuntimeError):
    """Base of all errors of this package."""


class ConfigError(HeadwaterError, ValueError):
    """A key, value, recipe, dataset or weight is wrong; the message names it."""


class StateError(HeadwaterError, ValueError):
    """A state does not fit this loader; the message lists what differs."""


class StorageError(HeadwaterError):
    """The storage tier cannot be reached or does not have the data."""


class ImageError(HeadwaterError, ValueError):
    """An image given to `decode` or `render` cannot be decoded; the message has its number."""


class MessageError(HeadwaterError, ValueError):
    """A message or file is not in Tensorcom's format; the message names where it came from and what is wrong."""


class LinkError(HeadwaterError):
    """No data link can be offered, or there is no memory for batches."""


class DeviceError(HeadwaterError):
    """Batches cannot be had on the GPU: it is not there, lacks memory, or failed."""


class WorkerError(HeadwaterError):
    """No worker came, or a part failed at one too often. Waiting may be tried again."""


class SlotsError(HeadwaterError):
    """The trainer holds every batch there is memory for: let go of earlier ones."""


class BusyError(HeadwaterError):
    """The iteration is over, as another one has begun; or another thread waits in it."""


class ForkError(HeadwaterError):
    """Used in a process forked after the loader was made, or in a DataLoader worker."""


class ClosedError(HeadwaterError):
    """The loader was closed, or its own threads have ended."""
