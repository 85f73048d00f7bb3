import sys
import time

begin_time = last_time = time.time()


def progress_bar(current, total, msg=None):
    global last_time, begin_time
    if current == 0:
        begin_time = time.time()  # Reset for new bar.

    done = int(20 * (current + 1) / total)
    sys.stdout.write(" [" + "=" * done + "." * (20 - done) + "]")
    last_time = time.time()
    assert last_time >= begin_time
    if msg:
        sys.stdout.write(" | " + msg)
    sys.stdout.write(" %d/%d " % (current + 1, total))
    sys.stdout.write("\r" if current < total - 1 else "\n")
    sys.stdout.flush()
