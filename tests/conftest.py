"""Whole-system tests: real processes, the real device. `server` is a `quern serve` of the test's own.

Nothing here sleeps: waits block on a pipe, a socket or a pidfd, each with a limit. A test that waits for something
within a server waits for a line of its log. A server of a test that is marked `events` logs at debug level, which is
one line for each change of a request, an executor, an object on a device and so on. An error-level log line fails the
test that did not ask for it.
"""
import http.client
import io
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import tarfile
import threading
import time

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRESET = os.environ.get("QUERN_PRESET", "dev")
BINARY = pathlib.Path(os.environ.get("QUERN_BINARY", ROOT / "build" / PRESET / "quern"))
EXAMPLES = ROOT / "examples"
BINARY_CACHE = ROOT / "build" / "test-binaries"
SLOWER = 1 if PRESET == "dev" else 10  # what a sanitizer costs
START_LIMIT, STOP_LIMIT, CALL_LIMIT = 60 * SLOWER, 30 * SLOWER, 60 * SLOWER
DATATYPES = {"float32": "FP32", "float64": "FP64", "float16": "FP16", "uint8": "UINT8", "int32": "INT32",
             "uint32": "UINT32", "int64": "INT64", "bool": "BOOL"}


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes; run by ./quern test --long")
    config.addinivalue_line("markers", "fake: also runs over hal/fake, and so with sanitizers")
    config.addinivalue_line("markers", "drivers: runs on every OpenCL driver that is installed")
    config.addinivalue_line("markers", "events: its servers log at debug level, which tells every event")


def wait_gone(pid, limit=STOP_LIMIT):
    """True once the process has ended."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], limit)[0])
    finally:
        os.close(fd)


def children_of(pid):
    """Every process below `pid`, itself not."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    found, known = [], {pid}
    while new := [child for child, parent in parents.items() if parent in known and child not in known]:
        known.update(new)
        found += new
    return found


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def is_over(call):
    """Tells whether a future is done, or a thread has ended."""
    return call.done() if hasattr(call, "done") else not call.is_alive()


def tar_of(files):
    """A tar of {name: bytes or text}, as a deploy sends it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            content = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def folder_files(folder):
    """Every file of a function's folder, but for cases to compare with."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file() and path.relative_to(folder).parts[0] != "expected"}


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        size = self.headers.get("Inference-Header-Content-Length")
        return json.loads(self.body[:int(size)] if size else self.body)

    @property
    def outputs(self):
        """{name: array} of an infer answer, binary or JSON."""
        types = {protocol: numpy for numpy, protocol in DATATYPES.items()}
        size = self.headers.get("Inference-Header-Content-Length")
        at, arrays = int(size) if size else len(self.body), {}
        for output in self.json["outputs"]:
            dtype = np.dtype(types[output["datatype"]])
            if (length := output.get("parameters", {}).get("binary_data_size")) is not None:
                data = np.frombuffer(self.body[at:at + length], dtype)
                at += length
            else:
                data = np.array(output["data"], dtype)
            arrays[output["name"]] = data.reshape(output["shape"])
        assert at == len(self.body)
        return arrays


class Server:
    """A `quern serve`, its log, and calls of its API."""

    def __init__(self, folder, config=None, arguments=(), key=None, binary_cache=True,
                 listen="127.0.0.1:0", log_level="info"):
        self.listen = listen
        self.log_level = log_level
        self.folder, self.key = pathlib.Path(folder), key
        self.state = self.folder / "state"
        self.arguments = list(arguments)
        self.binary_cache = binary_cache
        self.allowed = []
        self.process = None
        self.lines = []
        self.heard = threading.Condition()
        if PRESET != "dev" and (config is None or "devices:" not in config):
            config = (config or "") + "\ndevices: [{name: fake0, driver: fake}]\n"
        self.config = None
        if config is not None:
            self.config = self.folder / "quern.yaml"
            self.config.write_text(config)

    def command(self):
        command = [str(BINARY), "serve", "--listen", self.listen, "--state", str(self.state),
                   "--log-level", self.log_level]
        if self.binary_cache:
            BINARY_CACHE.mkdir(parents=True, exist_ok=True)
            command += ["--binary-cache", str(BINARY_CACHE)]
        return command + (["--config", str(self.config)] if self.config else []) + self.arguments

    def start(self, ready=True):
        """Listens; `ready`: and what was deployed can be called, or is known to be damaged."""
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        self.begin, self.ended, self.part = len(self.lines), False, b""
        self.stream = self.process.stdout
        os.set_blocking(self.stream.fileno(), False)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        line = self.wait_line(r"^listening on http://", START_LIMIT, since=self.begin)
        self.url = line.split()[-1]
        self.port = int(self.url.rsplit(":", 1)[1])
        if ready:
            self.wait_line(r" functions: (all|none)", START_LIMIT, since=self.begin)
        return self

    def _read(self):
        while not self.ended:
            select.select([self.stream], [], [])
            with self.heard:
                self._take()

    def _take(self):
        """Reads what the log's pipe has. Whoever holds the lock may call this."""
        try:
            while not self.ended:
                if piece := os.read(self.stream.fileno(), 1 << 16):
                    *whole, self.part = (self.part + piece).split(b"\n")
                else:
                    whole, self.part, self.ended = [self.part] if self.part else [], b"", True
                self.lines += [line.decode(errors="replace") for line in whole]
                self.heard.notify_all()
        except BlockingIOError:
            pass

    def mark(self):
        """Returns the present end of the log, for `since`. Every line that the server wrote before its latest answer is
        before the mark: this reads what is still in the pipe."""
        with self.heard:
            self._take()
            return len(self.lines)

    def wait_lines(self, pattern, count, limit=CALL_LIMIT, since=0, watched=()):
        """Returns the first `count` lines that match, now or when they come. `watched` are futures or threads, of the
        calls that bring the lines about: if one of them ends first, the wait fails at once."""
        deadline = time.monotonic() + limit
        found, at = [], since
        with self.heard:
            while True:
                was_over = any(is_over(call) for call in watched)
                self._take()  # what the server said before it answered the watched calls is in the pipe
                found += [line for line in self.lines[at:] if re.search(pattern, line)]
                at = len(self.lines)
                if len(found) >= count:
                    return found[:count]
                left = deadline - time.monotonic()
                why = ("ended" if self.ended else "said nothing like it in time" if left <= 0 else
                       "said nothing like it before its call ended" if was_over else "")
                if why:
                    raise AssertionError(f"{len(found)} of {count} lines like {pattern!r}: the server {why}:\n" +
                                         self.log())
                self.heard.wait(min(left, 1))

    def wait_line(self, pattern, limit=CALL_LIMIT, since=0, watched=()):
        """The first line that matches, now or when it comes."""
        return self.wait_lines(pattern, 1, limit, since, watched)[0]

    def wait_requests(self, function, what, count=1, since=0, watched=()):
        """Returns the ids of the first `count` requests of the function of which the log says `what`, for example
        "is on device". The test must be marked `events`."""
        lines = self.wait_lines(rf" request \S+ of {function}: {what}", count, since=since, watched=watched)
        return [re.search(r" request (\S+) of ", line)[1] for line in lines]

    def wait_until(self, is_true, what, limit=CALL_LIMIT, watched=(), look_every=1.0):
        """Returns what `is_true` returns, as soon as that is true. `is_true` is called at once and after each new line
        of the log, so the test must be marked `events`; also after `look_every` seconds without a line, for what no
        line tells. If one of `watched`, which are futures or threads, has ended and `is_true` is false, the wait
        fails."""
        deadline = time.monotonic() + limit
        while True:
            seen = self.mark()
            was_over = any(is_over(call) for call in watched)
            if found := is_true():
                return found
            left = deadline - time.monotonic()
            if was_over or left <= 0 or self.ended:
                when = "before the server ended" if self.ended else "before its call ended" if was_over else "in time"
                raise AssertionError(f"{what}: that did not come {when}:\n" + self.log())
            with self.heard:
                self.heard.wait_for(lambda: len(self.lines) > seen or self.ended, min(left, look_every))

    def log(self):
        return "\n".join(self.lines[-200:])

    def stop(self):
        """In order; the exit code."""
        if self.process is None:
            return 0
        below = children_of(self.process.pid)
        self.process.send_signal(signal.SIGTERM)
        code = self._reap()
        assert [pid for pid in below if not wait_gone(pid)] == [], "processes are left behind"
        return code

    def kill(self):
        """By -9, as a machine's out-of-memory killer would."""
        below = children_of(self.process.pid)
        self.process.kill()
        self._reap()
        assert [pid for pid in below if not wait_gone(pid)] == [], "executors outlived their daemon"

    def _reap(self):
        process, self.process = self.process, None
        try:
            code = process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError("the server did not stop:\n" + self.log()) from None
        self.reader.join(STOP_LIMIT)
        return code

    def allow_errors(self, pattern):
        self.allowed.append(pattern)

    def unexpected_errors(self):
        return [line for line in self.lines if re.match(r"\S+Z error ", line)
                and not any(re.search(pattern, line) for pattern in self.allowed)]

    def executors(self):
        return [pid for pid in children_of(self.process.pid) if "executor" in command_of(pid)[1:2]]

    # The API, over a connection per call unless one is given.

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=CALL_LIMIT)

    def request(self, method, path, body=None, headers=None, key=None, connection=None):
        headers = dict(headers or {})
        if key or self.key:
            headers["Authorization"] = "Bearer " + (key or self.key)
        own = connection is None
        connection = connection or self.connect()
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            if own:
                connection.close()

    def deploy(self, name, files=None, key=None):
        """An example by its name, or files."""
        files = folder_files(EXAMPLES / name) if files is None else files
        return self.request("PUT", "/v1/functions/" + name, tar_of(files), key=key)

    def infer(self, name, inputs, parameters=None, binary=True, key=None, connection=None, version=None):
        """`inputs` is {name: array}. Binary both ways, or JSON both ways."""
        tensors, blobs = [], []
        for tensor, array in inputs.items():
            one = {"name": tensor, "datatype": DATATYPES[array.dtype.name], "shape": list(array.shape)}
            if binary:
                blobs.append(array.tobytes())
                one["parameters"] = {"binary_data_size": len(blobs[-1])}
            else:
                one["data"] = array.ravel().tolist()
            tensors.append(one)
        parameters = dict(parameters or {}, **({"binary_data_output": True} if binary else {}))
        head = json.dumps({"inputs": tensors, "parameters": parameters}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head))} if binary else {}
        path = f"/v2/models/{name}" + (f"/versions/{version}" if version else "") + "/infer"
        return self.request("POST", path, head + b"".join(blobs), headers, key, connection)

    def cli(self, *arguments, key=None, check=None):
        """Runs `quern ARGUMENTS` against this server."""
        environment = dict(os.environ, QUERN_SERVER=self.url)
        if key or self.key:
            environment["QUERN_KEY"] = key or self.key
        return run_cli(*arguments, environment=environment, check=check)


def run_cli(*arguments, environment=None, check=None, cwd=None):
    ran = subprocess.run([str(BINARY), *map(str, arguments)], env=environment, capture_output=True, text=True,
                         timeout=2 * CALL_LIMIT, check=False, cwd=cwd)
    if check is not None:
        assert ran.returncode == check, f"exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return ran


@pytest.fixture
def make_server(request, tmp_path):
    """Makes servers that end with the test."""
    servers = []
    log_level = "debug" if request.node.get_closest_marker("events") else "info"

    def make(start=True, **options):
        options.setdefault("log_level", log_level)
        folder = tmp_path / f"server{len(servers)}"
        folder.mkdir()
        server = Server(folder, **options)
        servers.append(server)
        return server.start() if start else server

    yield make
    finish(servers)


def finish(servers):
    problems = []
    for server in servers:
        try:
            code = server.stop()
            assert code == 0, f"exit code {code}:\n{server.log()}"
        except AssertionError as problem:
            problems.append(str(problem))
        problems += server.unexpected_errors()
    assert not problems, "\n".join(problems)


@pytest.fixture
def server(make_server):
    return make_server()


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """One server for the tests of a module that leave it as they found it, with saxpy, sgemm and copy deployed."""
    one = Server(tmp_path_factory.mktemp("examples"))
    one.start()
    try:
        for name in ("saxpy", "sgemm", "copy"):
            answer = one.deploy(name)
            assert answer.status in (200, 201), answer.body
        yield one
    finally:
        finish([one])


def saxpy_inputs(n=1000, seed=1):
    numbers = np.random.default_rng(seed)
    return {"x": numbers.random(n, np.float32), "y": numbers.random(n, np.float32)}


def assert_error(answer, status, code, *texts):
    """The one shape of every error."""
    assert answer.status == status, (answer.status, answer.body)
    error = answer.json
    assert sorted(error) == ["code", "error", "request"], error
    assert isinstance(error["error"], str) and error["code"] == code, error
    assert answer.headers["Quern-Request"] == error["request"]
    for text in texts:
        assert text in error["error"], error
