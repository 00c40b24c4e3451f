"""From training to another runtime: learned under autocast in bfloat16, exported, and run where there is no torch."""

import io

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.testing import assert_close

import ctrnn
from discretize import ContinuousRNN, DiscreteRNN, Layers, SequenceModel

MODELS = {
    "steps": DiscreteRNN,
    "fixed steps of a solver": lambda field: ContinuousRNN(field, method="heun2"),
    "layers": lambda field: Layers([DiscreteRNN(field), DiscreteRNN(ctrnn.plain(8, 8))]),
}


def running_mean(batch, time):
    x = torch.randn(time, batch, 2)
    return x, x.cumsum(0) / torch.arange(1, time + 1)[:, None, None]


def trained(name):
    """A small model, after some steps of Adam under autocast; its first losses and its last."""
    torch.set_default_dtype(torch.float32)
    model = SequenceModel(MODELS[name](ctrnn.gru(4, 8)), 2, encoder=nn.Linear(2, 4))
    optimizer, losses = torch.optim.Adam(model.parameters(), 0.02), []
    for _ in range(60):
        x, wanted = running_mean(batch=16, time=12)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = mse_loss(model(x).float(), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model.eval(), sum(losses[:5]) / 5, sum(losses[-5:]) / 5


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch.onnx of torch
def test_a_model_that_learned_in_bfloat16_gives_the_same_exported_and_in_onnxruntime(name):
    pytest.importorskip("onnxscript", reason="torch.onnx.export needs onnxscript: pip install '.[onnx]'")
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install '.[onnx]'")
    model, before, after = trained(name)
    assert after < before / 3
    sizes = ({0: torch.export.Dim("time"), 1: torch.export.Dim("batch")},)
    x, _ = running_mean(batch=3, time=7)
    program = torch.export.export(model, (x,), dynamic_shapes=sizes).module()
    file = io.BytesIO()
    torch.onnx.export(model, (x,), dynamo=True, dynamic_shapes=sizes).save(file)
    session = runtime.InferenceSession(file.getvalue())
    for batch, time in ((3, 7), (1, 40)):
        x, _ = running_mean(batch, time)
        wanted = model(x).detach()
        assert_close(program(x).detach(), wanted, rtol=0, atol=1e-5)
        (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        assert_close(torch.from_numpy(found), wanted, rtol=0, atol=1e-3)
        with torch.autocast("cpu", dtype=torch.bfloat16):  # as it was trained: to the rounding of its encoder and read-out
            assert_close(model(x).float().detach(), wanted, rtol=0.05, atol=0.05)
