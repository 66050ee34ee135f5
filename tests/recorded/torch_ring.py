"""PyTorch's ring attention (torch.distributed.tensor.experimental), with CPU kernels where it takes those of CUDA."""

import torch
import torch.nn.functional as F
from handwritten import BATCH, SEQUENCE, WIDTH, split_heads
from notes import average_gradients
from torch.distributed.tensor.experimental import _attention as torch_attention

DIM = 2  # of the sequence in [batch, heads, sequence, width]
KERNEL = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
KERNEL_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def kernel(query, key, value, is_causal):
    return KERNEL(query, key, value, 0.0, is_causal)


def kernel_backward(query, key, value, out, logsumexp, is_causal, grad_out):
    return KERNEL_BACKWARD(grad_out, query, key, value, out, logsumexp, 0.0, is_causal)


class TorchRing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, mesh):
        out, lse = torch_attention._templated_ring_attention(mesh, DIM, kernel, q, k, v, is_causal=True)
        out = out.to(q.dtype)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.mesh = mesh
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        made = torch_attention._templated_ring_attention_backward(
            ctx.mesh, DIM, kernel_backward, grad.contiguous(), "grad_out", q, k, v, out, lse, is_causal=True
        )
        return *made[:3], None


def torch_ring(run, rotate, dtype):
    torch_attention.set_rotate_method(rotate)
    mesh = run.mesh()
    wq, wk, wv, wo = (torch.randn(WIDTH, WIDTH, dtype=dtype).requires_grad_() for _ in range(4))
    x = torch.randn(SEQUENCE // run.log.axes["cp"], BATCH, WIDTH, dtype=dtype, requires_grad=True)
    with run.phase("forward"):
        q, k, v = (split_heads(F.linear(x, w)).permute(1, 2, 0, 3).contiguous() for w in (wq, wk, wv))
        out = TorchRing.apply(q, k, v, mesh).permute(2, 0, 1, 3)
        loss = F.linear(out.flatten(2), wo).square().mean()
    with run.phase("backward"):
        loss.backward()
    average_gradients(run, (wq, wk, wv, wo), mesh.get_group())
