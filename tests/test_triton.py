"""NVIDIA's own client, tritonclient from PyPI, against us: what its users would do, unchanged."""
import asyncio

import numpy as np
import pytest

try:
    import tritonclient.http as triton
    import tritonclient.http.aio as triton_aio
    from tritonclient.utils import InferenceServerException
except ImportError as missing:
    pytest.skip(f"tritonclient is not importable ({missing}); PyPI was out of reach", allow_module_level=True)

from conftest import saxpy_inputs

pytestmark = pytest.mark.fake


def address(server):
    return f"127.0.0.1:{server.port}"


@pytest.fixture
def client(examples):
    with triton.InferenceServerClient(address(examples)) as one:
        yield one


def tensors(inputs, binary, module=triton):
    made = []
    for name, array in inputs.items():
        tensor = module.InferInput(name, list(array.shape), "FP32" if array.dtype == np.float32 else "UINT8")
        tensor.set_data_from_numpy(array, binary_data=binary)
        made.append(tensor)
    return made


def test_health_and_metadata(client):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("saxpy")
    assert not client.is_model_ready("nothing")
    assert client.get_server_metadata()["name"] == "quern"
    metadata = client.get_model_metadata("saxpy")
    assert [one["name"] for one in metadata["inputs"]] == ["x", "y"]
    version = metadata["versions"][0]
    assert client.is_model_ready("saxpy", version)
    assert client.get_model_metadata("saxpy", version) == metadata


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_infer(client, binary_in, binary_out):
    inputs = saxpy_inputs(777)
    answer = client.infer("saxpy", tensors(inputs, binary_in), parameters={"alpha": 2.5}, request_id="mine",
                          outputs=[triton.InferRequestedOutput("z", binary_data=binary_out)])
    np.testing.assert_allclose(answer.as_numpy("z"), np.float32(2.5) * inputs["x"] + inputs["y"], rtol=1e-6)
    assert answer.get_response()["id"] == "mine" and answer.get_response()["model_name"] == "saxpy"


def test_all_outputs_by_default(client):
    data = np.arange(256, dtype=np.uint8)
    answer = client.infer("copy", tensors({"input": data}, True))
    np.testing.assert_array_equal(answer.as_numpy("output"), data)


def test_versions(client):
    version = client.get_model_metadata("saxpy")["versions"][0]
    answer = client.infer("saxpy", tensors(saxpy_inputs(5), True), model_version=version)
    assert answer.get_response()["model_version"] == version
    with pytest.raises(InferenceServerException, match="saxpy"):
        client.infer("saxpy", tensors(saxpy_inputs(5), True), model_version="000000000000")


def test_timeout_and_priority_are_parameters(client):
    answer = client.infer("saxpy", tensors(saxpy_inputs(5), True), timeout=30_000_000, priority=3)
    assert answer.as_numpy("z").shape == (5,)


def test_text_of_errors(client):
    with pytest.raises(InferenceServerException) as caught:
        client.infer("saxpi", tensors(saxpy_inputs(5), True))
    assert "did you mean 'saxpy'?" in caught.value.message() and "404" in str(caught.value.status())
    with pytest.raises(InferenceServerException) as caught:
        client.infer("saxpy", tensors({"x": np.zeros(4, np.float32)}, True))
    assert "y" in caught.value.message() and "400" in str(caught.value.status())
    with pytest.raises(InferenceServerException) as caught:
        client.infer("saxpy", tensors({"x": np.zeros(4, np.float32), "y": np.zeros(5, np.float32)}, True))
    assert "n" in caught.value.message()


def test_async_calls_of_the_sync_client(examples):
    with triton.InferenceServerClient(address(examples), concurrency=4) as client:
        inputs = saxpy_inputs(100)
        waiting = [client.async_infer("saxpy", tensors(inputs, True), parameters={"alpha": float(i)}) for i in range(8)]
        for i, one in enumerate(waiting):
            np.testing.assert_allclose(one.get_result().as_numpy("z"), i * inputs["x"] + inputs["y"], rtol=1e-5)


@pytest.mark.parametrize("binary", [True, False])
def test_aio(examples, binary):
    inputs = saxpy_inputs(321)

    async def call(client, alpha):
        return await client.infer("saxpy", tensors(inputs, binary, triton_aio), parameters={"alpha": alpha},
                                  outputs=[triton_aio.InferRequestedOutput("z", binary_data=binary)])

    async def work():
        async with triton_aio.InferenceServerClient(address(examples)) as client:
            assert await client.is_server_ready() and await client.is_model_ready("saxpy")
            answers = await asyncio.gather(*(call(client, float(i)) for i in range(6)))
            for i, answer in enumerate(answers):
                np.testing.assert_allclose(answer.as_numpy("z"), i * inputs["x"] + inputs["y"], rtol=1e-5)
            with pytest.raises(InferenceServerException, match="did you mean 'saxpy'?"):
                await client.infer("saxpi", tensors(inputs, binary, triton_aio))

    asyncio.run(work())
