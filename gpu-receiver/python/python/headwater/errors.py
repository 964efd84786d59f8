"""Errors by kind. All that Headwater raises are ``HeadwaterError``, and therefore ``RuntimeError``."""


class HeadwaterError(RuntimeError):
    """Base class of all errors of this package."""


class ConfigError(HeadwaterError, ValueError):
    """A key, value, recipe, dataset or weight is wrong; the message names it."""


class StateError(HeadwaterError, ValueError):
    """A state does not fit this loader; the message lists what differs."""


class StorageError(HeadwaterError):
    """The storage tier cannot be reached or does not have the data."""


class ImageError(HeadwaterError, ValueError):
    """An image given to `decode` or `render` cannot be decoded; the message has its number."""


class MessageError(HeadwaterError, ValueError):
    """A message or file is not in Tensorcom's format; the message names its source and the problem."""


class LinkError(HeadwaterError):
    """No data link can be offered, or there is no memory for batches."""


class DeviceError(HeadwaterError):
    """Batches cannot be delivered on the GPU: it is missing, lacks memory, or failed."""


class WorkerError(HeadwaterError):
    """There is no worker, or a part failed too often. You may ask for the batch again."""


class SlotsError(HeadwaterError):
    """No slot for a batch is free: the trainer or a worker holds them, or lost ones cannot be made anew. The text says which."""


class BusyError(HeadwaterError):
    """The iteration is over because another one has begun; or another thread waits in it."""


class ForkError(HeadwaterError):
    """The loader was used in a process forked after it was made, or in a DataLoader worker."""


class ClosedError(HeadwaterError):
    """The loader was closed, or its threads have ended."""


class BadSample(Exception):
    """Raise it in a function or dataset of your own: this sample cannot be used, now and on every host.

    Another sample may replace it. Other errors are tried again, see docs/own-python.md.
    """
