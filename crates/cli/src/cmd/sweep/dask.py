"""The Dask client of `nicforge sweep`: commands come as lines of JSON, results go as lines of
JSON."""

import json
import signal
import sys

signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def run(job, arguments):
    """One command, on a worker."""
    import subprocess
    import time

    start = time.monotonic()
    done = {"job": job}
    try:
        ran = subprocess.run(
            ["nicforge", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        if ran.returncode == 0:
            done["output"] = ran.stdout
        else:
            lines = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
            done["error"] = lines[-1] if lines else "it said nothing"
    except OSError as error:
        done["error"] = f"nicforge: {error.strerror} on the worker"
    done["seconds"] = round(time.monotonic() - start, 3)
    return done


def main():
    try:
        from distributed import Client, as_completed

        client = Client(sys.argv[1], timeout=30)
    except (ImportError, OSError) as error:
        print(f"dask: {error}", file=sys.stderr)
        sys.exit(3)
    jobs = [json.loads(line) for line in sys.stdin]
    futures = [client.submit(run, job["job"], job["arguments"], pure=False) for job in jobs]
    for future in as_completed(futures):
        print(json.dumps(future.result()), flush=True)


main()
