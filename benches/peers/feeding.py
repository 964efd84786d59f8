"""One rank of one loader in a process of its own, for resume.py, start.py and memory.py.

usage: feeding.py JSON
       feeding.py --serve LOADER

With --serve it imports the loader's library and then makes a process for each line of JSON that it reads, which has not
used anything of the library before. It answers with the process's id.

The JSON has the loader's name, a Setup's fields, and what to do: `steps` to take, `load` (a file with a state) or `skip`
(batches to take and drop), `save` (a file for the state after step `save_at`, or after every step), `pause_s` between
steps, `until_s` of time in place of steps, `imports` that come before the loader's own. For each batch a line goes to `record`: step, ids, a CRC of each image, and
times.
"""

import importlib
import json
import os
import pathlib
import pickle
import signal
import sys
import time
import traceback
import zlib

STARTED = time.perf_counter()


def save(path, loader, step):
    """In one piece or not at all. Gives the error's text where there is no state."""
    try:
        state = loader.state()
    except (AttributeError, NotImplementedError) as error:
        return f"{type(error).__name__}: {error}"
    new = pathlib.Path(f"{path}.new")
    new.write_bytes(pickle.dumps({"step": step, "state": state}))
    os.replace(new, path)
    return None


def line(record, **fields):
    record.write(json.dumps(fields) + "\n")
    record.flush()


def serve(name):
    from loaders import loader_class

    loader_class(name)
    # Whoever asked waits for the processes; none of them stays behind as a zombie.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    for text in sys.stdin:
        told = json.loads(text)
        pid = os.fork()
        if pid == 0:
            begin(told)
        print(pid, flush=True)


def begin(told):
    """Makes the process look like one that was started on its own, and ends it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.environ.update(told["environment"])
    errors = os.open(told["errors"], os.O_WRONLY | os.O_CREAT)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    ended(told)


def ended(told):
    """Libraries may have threads that do not end: what was to be done is written when this process ends."""
    try:
        run(told)
        status = 0
    except Exception:
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    os._exit(status)


def run(told):
    with open(told["record"], "a") as record:
        try:
            feed(told, record)
        except Exception as error:
            text = " ".join(str(error).split())
            line(record, error=f"{type(error).__name__}: {text}")
            raise


def feed(told, record):
    if told.get("imports"):
        for name in told["imports"]:
            importlib.import_module(name)
        line(record, imported_s=time.perf_counter() - STARTED)
    from loaders import Setup, loader_class

    setup = Setup(**{**told["setup"], "folder": pathlib.Path(told["setup"]["folder"])})
    loader = loader_class(told["loader"])(setup)
    step = 0
    if told.get("load"):
        saved = pickle.loads(pathlib.Path(told["load"]).read_bytes())
        loader.load(saved["state"])
        step = saved["step"]
    elif told.get("skip"):
        step = told["skip"]
        loader.skip(step)
    last = step + told["steps"]
    until = STARTED + told["until_s"] if told.get("until_s") else None
    asked = time.perf_counter()
    for ids, images in loader.batches():
        clock = time.perf_counter()
        step += 1
        # A process that was forked began when this module was imported: only the waits count there.
        times = {"s": clock - STARTED, "waited_s": clock - asked}
        if told.get("content", True):
            line(record, step=step, ids=ids.tolist(), crcs=[zlib.crc32(image) for image in images], **times)
        else:
            line(record, step=step, **times)
        if told.get("save") and step == told.get("save_at", step):
            refused = save(told["save"], loader, step)
            if refused:
                line(record, refused=refused)
        time.sleep(told.get("pause_s", 0))
        if step == last or (until and clock > until):
            break
        asked = time.perf_counter()
    line(record, ended=step)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    else:
        ended(json.loads(sys.argv[1]))
