"""A program includes the headers of its own function, and no other file of the server."""
import ctypes
import io
import json
import os
import pathlib
import subprocess
import tarfile
import tempfile

import numpy as np
import pytest
from conftest import BINARY, CALL_LIMIT, PRESET, assert_error, tar_of

compiles = pytest.mark.skipif(PRESET != "dev", reason="needs a compiler")

MANIFEST = """
api: quern/v1
name: peek
kind: graph
programs: {opencl: {files: [peek.cl], headers: [sub/own.h]}}
buffers: {z: {role: output, dtype: fp32, shape: [64]}}
kernels: [{entry: peek, global: [64], local: [16], args: [{out: z}]}]
"""
KERNEL = "__kernel void peek(__global float* z) { z[get_global_id(0)] = VALUE; }\n"


def function(source, header="#define VALUE 3.0f\n"):
    return {"function.yaml": MANIFEST, "peek.cl": source, "sub/own.h": header}


@pytest.fixture
def secret(tmp_path):
    """A file of the server that would compile."""
    path = tmp_path / "secret.h"
    path.write_text("#define VALUE 4.0f\n")
    return path


@compiles
@pytest.mark.parametrize("include", ['#include "sub/own.h"', "#include <sub/own.h>", '#include "./sub/own.h"'])
def test_own_headers(server, include):
    answer = server.deploy("peek", function(f"{include}\n{KERNEL}"))
    assert answer.status == 201, answer.body
    answer = server.infer("peek", {})
    np.testing.assert_array_equal(answer.outputs["z"], np.full(64, 3, np.float32))


@compiles
def test_a_header_is_part_of_the_key(server):
    for value in (3, 5, 3):
        answer = server.deploy("peek", function(f'#include "sub/own.h"\n{KERNEL}', f"#define VALUE {value}.0f\n"))
        assert answer.status in (200, 201), answer.body
        np.testing.assert_array_equal(server.infer("peek", {}).outputs["z"], np.full(64, value, np.float32))


@pytest.mark.fake
@pytest.mark.parametrize("include, problem", [
    ('#include "SECRET"', "is an absolute path; copy the file into the function's folder and name it under headers"),
    ("#include <SECRET>", "is an absolute path; copy the file"),
    ('#include "../../../../../..SECRET"', "leaves the function's folder by '..'; copy the file into the folder"),
    ('#include "sub/../..SECRET"', "leaves the function's folder by '..'"),
    ('#include_next "SECRET"', "#include_next"),
    ('#import "SECRET"', "#import"),
    ('??=include "SECRET"', "is an absolute path"),
    ('%:inc\\\nlude /* a */ "SECRET"', "is an absolute path"),
    ('#/*\n*/include "SECRET"', "is an absolute path"),
    ('#inc\\\n\rlude "SECRET"', "is an absolute path"),
    ('#inc??/\n\rlude "SECRET"', "is an absolute path"),
    (r'#include "sub\"/../../../../../..SECRET"', "has a backslash in its name"),
    (r'#include <sub\>/../../../../../..SECRET>', "has a backslash in its name"),
    (r'#include "sub??/"/../../../../../..SECRET"', "has a backslash in its name"),
    ('#define NAME "SECRET"\n#include NAME', "#include does not name its file on the same line; write the name"),
    ('#if __has_include("SECRET")\n#define VALUE 4\n#endif', "__has_include"),
])
def test_other_files_are_refused_with_their_line(server, secret, include, problem):
    answer = server.deploy("peek", function("\n" + include.replace("SECRET", str(secret)) + "\n" + KERNEL))
    assert_error(answer, 400, "invalid", "peek.cl:", problem)
    answer = server.deploy("peek", function(KERNEL, "\n\n" + include.replace("SECRET", str(secret)) + "\n"))
    assert_error(answer, 400, "invalid", "sub/own.h:", problem)
    assert server.request("GET", "/v1/counters").json["builds"] == 0


@compiles
def test_text_in_comments_is_no_include(server):
    source = ('/* Once this was\n#include "../other.h"\n#include NAME\n*/\n#include "sub/own.h" /* not\r\n'
              '#include </etc/passwd> */\r\n#define TWICE(x) ((x) + /* a\n comment */ (x))\n'
              '// */ #include "/etc/passwd" \\\n#include "../x.h"\n' + KERNEL.replace("VALUE", "TWICE(VALUE)"))
    answer = server.deploy("peek", function(source))
    assert answer.status == 201, answer.body
    np.testing.assert_array_equal(server.infer("peek", {}).outputs["z"], np.full(64, 6, np.float32))


@compiles
def test_lines_of_a_program_without_comments_are_those_of_the_file(server):
    answer = server.deploy("peek", function('/* a\n\n b */ #include "sub/own.h"\r\n// c\r\n/* d */ oops;\n' + KERNEL))
    assert_error(answer, 400, "invalid", "peek.cl:5:9: ")


@compiles
@pytest.mark.parametrize("second", ['" */ "/*" \n#include "SECRET"\n/* */\n', '" */ "/* \n#include "SECRET"\n*/\n',
                                    '*/ "/*" \n#include "SECRET"\n'])
def test_a_comment_that_two_files_share_hides_nothing(server, secret, second):
    """What the second file alone has in a comment, both together may have in code."""
    secret.write_text("#error the secret was read\n")
    files = function("/*\n")
    files["function.yaml"] = MANIFEST.replace("files: [peek.cl]", "files: [peek.cl, second.cl]")
    files["second.cl"] = second.replace("SECRET", str(secret)) + KERNEL
    answer = server.deploy("peek", files)
    assert answer.status == 400 and b"the secret was read" not in answer.body, answer.body


@pytest.mark.fake
@pytest.mark.parametrize("name", ['sub\\"/own.h', 'o"wn.h', "o>wn.h", "o<wn.h"])
def test_names_of_headers(server, name):
    files = function(KERNEL)
    files["function.yaml"] = MANIFEST.replace("headers: [sub/own.h]", f"headers: [{json.dumps(name)}]")
    files[name] = files.pop("sub/own.h")
    assert_error(server.deploy("peek", files), 400, "invalid", "in its name; rename it")


@pytest.mark.fake
def test_options_name_no_folder(server, secret):
    for option in (f"-I{secret.parent}", "-I.", f"-include{secret}", "-include"):
        files = function(f'#include "secret.h"\n{KERNEL}')
        files["function.yaml"] = MANIFEST.replace("headers:", f'options: ["{option}"], headers:')
        assert_error(server.deploy("peek", files), 400, "invalid", "is not allowed")


@pytest.mark.fake
@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_a_link_in_the_folder(server, secret, kind):
    files = function(f'#include "sub/own.h"\n{KERNEL}')
    del files["sub/own.h"]
    out = io.BytesIO(tar_of(files))
    with tarfile.open(fileobj=out, mode="a") as tar:
        link = tarfile.TarInfo("sub/own.h")
        link.type, link.linkname = kind, str(secret)
        tar.addfile(link)
    answer = server.request("PUT", "/v1/functions/peek", out.getvalue())
    assert_error(answer, 400, "invalid", "sub/own.h: is a link; pack the file itself")


@compiles
def test_the_folder_of_the_server_is_not_searched(make_server, secret, monkeypatch):
    """PoCL looks for headers in the folder that its process works in."""
    monkeypatch.chdir(secret.parent)
    server = make_server()
    for include in ('#include "secret.h"', "#include <secret.h>"):
        answer = server.deploy("peek", function(f"{include}\n{KERNEL}"))
        assert_error(answer, 400, "invalid", "its program does not build", "peek.cl:1:10: 'secret.h' file not found")


def has_landlock():
    """By its version, which landlock_create_ruleset tells."""
    return ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1)) >= 2


@compiles
@pytest.mark.skipif(not has_landlock(), reason="the kernel has no Landlock")
def test_the_compiler_cannot_read_other_files(server, tmp_path):
    """Also where no check of the text finds their names: what an assembler includes does not come into the binary."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"the secret of this server")
    source = ('__kernel void peek(__global float* z) {\n  uint v;\n'
              f'  __asm__("jmp 1f\\n.incbin \\"{secret}\\"\\n1: mov $1, %0" : "=r"(v));\n'
              '  z[get_global_id(0)] = v;\n}\n')
    server.deploy("peek", function(source))
    stored = [path.read_bytes() for path in (server.state / "objects").rglob("*") if path.is_file()]
    assert len(stored) > 1 and not any(secret.read_bytes() in one for one in stored)


def others_can_reach(path):
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


@compiles
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.skipif(not others_can_reach(BINARY), reason="other users cannot reach the program")
def test_compiles_as_another_user():
    """The walls need no privileges."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in function(f'#include "sub/own.h"\n{KERNEL}').items():
            path = pathlib.Path(folder, "peek", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for path in (pathlib.Path(folder), *pathlib.Path(folder).rglob("*")):
            os.chown(path, 65534, 65534)
        ran = subprocess.run([str(BINARY), "run", f"{folder}/peek"], user=65534, group=65534, extra_groups=[],
                             env={"TMPDIR": folder, "HOME": folder}, cwd=folder, capture_output=True, text=True,
                             timeout=CALL_LIMIT, check=False)
    assert ran.returncode == 0 and "[3, 3, 3" in ran.stdout, ran.stdout + ran.stderr
