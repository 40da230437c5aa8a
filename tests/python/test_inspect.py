"""tile_ops.inspect: every kind of text, without a GPU; what tensors stand for; exact texts of errors."""

import os
import re
import subprocess
import sys

import pytest
import tile_ops
import torch

softmax = torch.ops.tile.softmax


@pytest.fixture
def x():
    return torch.randn(5, 300, device="cpu")


def test_ir_of_the_cpu_s_kernel_which_runs(x):
    text = tile_ops.inspect(softmax, x, -1)
    assert text.startswith("// softmax, grid (")
    assert "\nkernel softmax(" in text and "// softmax.cpp:" in text
    for_a_gpu = tile_ops.inspect(softmax, x, -1, arch=90)
    assert for_a_gpu.startswith("// softmax, grid (")
    assert tile_ops.inspect(softmax, x.to("meta"), -1) == for_a_gpu


def test_an_operator_s_value_is_right_while_it_is_inspected(x):
    results = []
    tile_ops.inspect(lambda: results.append(tile_ops.softmax(x, -1)))
    torch.testing.assert_close(results[0], torch.softmax(x, -1))


def test_cuda_is_the_text_of_each_launch(x):
    text = tile_ops.inspect(softmax, x, -1, what="cuda", arch=80)
    first, second = text.splitlines()[:2]
    assert first.startswith("// softmax, grid (") and first.endswith(", sm_80")
    assert second.startswith("// softmax for sm_80, ")
    assert '#include "cuda/device/tile.cuh"' in text


@pytest.mark.slow  # starts a process
def test_cuda_needs_no_nvrtc(x, tmp_path):
    code = (
        "import torch, tile_ops\n"
        "print(tile_ops.inspect(torch.ops.tile.softmax, torch.randn(5, 300, device='cpu'), -1, what='cuda', "
        "arch=80))"
    )
    environment = os.environ | {"TILE_NVRTC": "no/nvrtc", "TILE_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    first, why, rest = done.stdout.split("\n", 2)
    own_first, own_rest = tile_ops.inspect(softmax, x, -1, what="cuda", arch=80).split("\n", 1)
    assert first == own_first and rest == own_rest + "\n"
    assert why == (
        "// The usual configuration, not compiled: TILE_NVRTC=no/nvrtc: no/nvrtc: cannot open shared object file: No such file or "
        "directory; unset it, or set it to the file or the folder of NVRTC 12.3 or newer"
    )
    assert done.stderr == ""


def test_unaligned_arrays_are_read_in_single_elements(x):
    aligned, odd = torch.zeros(4, 256), torch.zeros(4, 257)[:, 1:]
    texts = [tile_ops.inspect(softmax, each, -1, what="cuda") for each in (aligned, odd)]
    assert texts[0] != texts[1]


def test_ptx_and_resources_of_nvrtc(x):
    ptx = tile_ops.inspect(softmax, x, -1, what="ptx", arch=80)
    assert ".target sm_80" in ptx and ".visible .entry kernel_softmax(" in ptx
    (row,) = tile_ops.inspect(softmax, x, -1, what="resources")
    assert (row["kernel"], row["arch"], row["spill_stores"]) == ("softmax", 90, 0)
    assert 16 <= row["registers"] <= 255 and row["threads"] % 32 == 0
    assert list(row) == [
        "kernel",
        "grid",
        "arch",
        "threads",
        "cluster",
        "registers",
        "spill_stores",
        "spill_loads",
        "stack_bytes",
        "shared_bytes",
        "conversions",
        "path",
        "why",
    ]
    assert (row["conversions"], row["path"], row["why"]) == ([], "", "")


def test_resources_say_which_instructions_multiply():
    def paths(dtype):
        x = torch.randn(64, 64, dtype=dtype)
        return [(row["path"], row["why"]) for row in tile_ops.inspect(tile_ops.matmul, x, x, what="resources")]

    assert paths(torch.bfloat16) == [("wgmma", "")]
    ((path, why),) = paths(torch.float32)
    assert path == "fma" and re.fullmatch(
        r"gemm\.cpp:\d+: wgmma does not multiply f32\[64,32\] by f32\[32,64\] onto f32\[64,64\]", why
    )


def test_the_arch_is_that_of_the_tensors(device):
    arch = "90"
    if device.type != "cpu":
        arch = "".join(map(str, torch.cuda.get_device_capability(device)))
    text = tile_ops.inspect(softmax, torch.randn(5, 300, device=device), -1, what="cuda")
    assert text.splitlines()[0].endswith(f", sm_{arch}")


def test_all_launches_of_a_call_in_order():
    x = torch.randn(2, 64, 12, 12, requires_grad=True)

    def gradient(x):
        return torch.autograd.grad(tile_ops.group_norm(x, 32).sum(), x)

    rows = tile_ops.inspect(gradient, x, what="resources")
    names = [row["kernel"] for row in rows]
    assert names[0].startswith("group_norm") and len(names) > 1


def test_sass_is_read_by_nvidia_s_tools(x, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError) as error:
        tile_ops.inspect(softmax, x, -1, what="sass")
    assert str(error.value) == (
        "inspect: neither nvdisasm nor cuobjdump is on PATH, and SASS is read with one of them; install the CUDA "
        "toolkit's nvdisasm, or look at what='ptx'"
    )
    tool = tmp_path / "nvdisasm"
    tool.write_text('#!/bin/sh\necho "$1 reads"; exec /usr/bin/head -c 4 "$2" | /usr/bin/tail -c 3\n')
    tool.chmod(0o755)
    assert tile_ops.inspect(softmax, x, -1, what="sass").endswith("\n-c reads\nELF\n")
    tool.write_text("#!/bin/sh\necho unknown architecture >&2; exit 1\n")
    with pytest.raises(RuntimeError) as error:
        tile_ops.inspect(softmax, x, -1, what="sass")
    assert str(error.value) == (f"inspect: {tool} fails: unknown architecture; install one of the kernel's CUDA version")


def test_wrong_arguments(x):
    for call, text in (
        (
            lambda: tile_ops.inspect(softmax, x, -1, what="asm"),
            "inspect: what is 'asm'; it is 'ir', 'cuda', 'ptx', 'sass' or 'resources'",
        ),
        (
            lambda: tile_ops.inspect(str, x),
            "inspect: <class 'str'> launches no kernel of tile_ops with these arguments; pass others",
        ),
    ):
        with pytest.raises(ValueError) as error:
            call()
        assert str(error.value) == text
    with pytest.raises(NotImplementedError) as error:
        tile_ops.inspect(softmax, x, -1, what="cuda", arch=75)
    assert str(error.value) == "inspect: the chip is sm_75, and kernels need sm_80 or newer; give another"
    with pytest.raises(ValueError, match="tile::softmax: "):
        tile_ops.inspect(softmax, x, 5, what="cuda")
    with pytest.raises(Exception, match="meta"):  # outside an inspection it stands for nothing
        tile_ops._C.run_ir("kernel k(%x: array<f32,1>) {\n}", (1, 1, 1), [torch.empty(3, device="meta")])


@pytest.mark.slow  # starts a process
def test_the_log_has_a_line_for_each_compile():
    code = "import torch, tile_ops\nfor n in 3, 4: tile_ops.softmax(torch.randn(2, n), -1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | {"TILE_LOG": "1"})
    words = done.stderr.split(" in ")
    assert words[0] == "tile: softmax: traced and compiled" and words[1].endswith(" ms\n") and len(words) == 2
