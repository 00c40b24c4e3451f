"""Models trained by Lightning in mixed precision, taken up from its checkpoint, and run by onnxruntime."""

import pages
import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of theirs
lightning = pytest.importorskip("lightning", reason="pip install -c constraints.txt '.[lightning,onnx]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="pip install -c constraints.txt '.[lightning,onnx]'")

MODULES = {
    "gated": lambda: discretize.DiscreteRNN(ctrnn.gated(2, 8)),
    "lstm": lambda: discretize.Layers([discretize.DiscreteRNN(ctrnn.lstm(2, 8)), discretize.DiscreteRNN(ctrnn.lstm(8, 8))]),
    "fixed steps": lambda: discretize.ContinuousRNN(ctrnn.gated(2, 8), method="rk4"),
    "adaptive steps": lambda: discretize.ContinuousRNN(ctrnn.gated(2, 8), rtol=1e-3, atol=1e-4),
}


class Learner(lightning.LightningModule):
    def __init__(self, name):
        super().__init__()
        self.save_hyperparameters()
        self.model, self.losses = discretize.SequenceModel(MODULES[name](), 1), []

    def training_step(self, batch, _):
        x, y = (part.transpose(0, 1) for part in batch)
        loss = torch.nn.functional.mse_loss(self.model(x).float(), y)
        self.losses.append(float(loss.detach()))
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-2)


@pytest.mark.parametrize("name", MODULES)
def test_a_model_trains_in_bfloat16_mixed_is_taken_up_and_exported(name, tmp_path):
    torch.set_default_dtype(torch.float32)
    x = torch.randn(256, 20, 2)
    data = torch.utils.data.TensorDataset(x, x[..., :1].cumsum(1) / 10)
    learner = Learner(name)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "default_root_dir": tmp_path}
    trainer = lightning.Trainer(max_epochs=6, precision="bf16-mixed", accelerator="cpu", gradient_clip_val=1.0, **quiet)
    trainer.fit(learner, torch.utils.data.DataLoader(data, 32))
    assert learner.losses[-1] < 0.5 * learner.losses[0]

    again = Learner.load_from_checkpoint(trainer.checkpoint_callback.best_model_path).model
    x = x[:4].transpose(0, 1)
    assert torch.equal(again(x), learner.model(x))
    if name != "adaptive steps":  # which are refused: docs/torch.md
        time, batch = torch.export.Dim("time", min=2), torch.export.Dim("batch", min=2)
        torch.onnx.export(again.eval(), (x,), dynamic_shapes=({0: time, 1: batch},)).save(tmp_path / "model.onnx")
        session, x = onnxruntime.InferenceSession(tmp_path / "model.onnx"), torch.randn(33, 7, 2)
        (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        assert_close(torch.from_numpy(found), again(x).detach(), rtol=0, atol=1e-6)


def test_the_module_on_the_page_learns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.set_default_dtype(torch.float32)
    blocks = pages.code_of("torch.md", "\n## Your own loop\n")
    namespace = {"__name__": "__main__"}
    for code in (blocks[0][1], *(code for kind, code in blocks if kind == "py")):  # the data, and the module
        exec(code, namespace)
    assert namespace["trainer"].callback_metrics["loss"] < 0.5  # 1.1 by chance
