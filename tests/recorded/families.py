"""Small models of transformers: how many parameters each has, and the buckets in which PyTorch's DDP
reduces their gradients from the second step on (bucket_cap_mb 1, one process).

    pip install torch==2.6.0 transformers==5.24.0
    python3 tests/recorded/families.py        # writes families/families.json
"""

import json
import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, BertForPreTraining, BertModel, T5ForConditionalGeneration

WIDE = {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 2048}
SMALL = {"hidden_size": 64, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
         "num_hidden_layers": 2, "vocab_size": 64}
FALCON = {"model_type": "falcon", "hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 2048}
T5 = {"model_type": "t5", "d_model": 256, "d_ff": 512, "d_kv": 64, "num_heads": 4, "num_layers": 2, "vocab_size": 2048}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
LATENT = {"moe_intermediate_size": 16, "n_routed_experts": 4, "num_experts_per_tok": 2, "first_k_dense_replace": 1,
          "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8, "num_key_value_heads": 4}

# Trained for two steps.
TRAINED = [
    {"model_type": "llama", "num_key_value_heads": 2, **WIDE},
    {"model_type": "qwen2", "num_key_value_heads": 2, **WIDE},
    {"model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 64, **WIDE},
    {"model_type": "gemma2", "num_key_value_heads": 2, "head_dim": 64, **WIDE},
    {"model_type": "gemma3_text", "num_key_value_heads": 2, "head_dim": 64, **WIDE},
    {"model_type": "olmo2", "eos_token_id": 1, **WIDE},
    {"model_type": "gpt_neox", **WIDE},
    {"model_type": "bert", **WIDE},
    {"model_type": "gpt2", "n_embd": 256, "n_head": 4, "n_layer": 2, "vocab_size": 2048, "bos_token_id": 1, "eos_token_id": 1},
    {"model_type": "bloom", "hidden_size": 256, "n_head": 4, "n_layer": 2, "vocab_size": 2048},
    {"model_type": "opt", "hidden_size": 256, "ffn_dim": 512, "num_attention_heads": 4, "num_hidden_layers": 2,
     "vocab_size": 2048, "word_embed_proj_dim": 256, "max_position_embeddings": 64},
    FALCON,
    {**FALCON, "num_kv_heads": 2, "new_decoder_architecture": True},
    {**T5, "decoder_start_token_id": 0},
]
# Counted. Their implementation fuses what stands apart here, or routes by what the weights say.
COUNTED = [
    {"model_type": "llama", "attention_bias": True, "mlp_bias": True, **SMALL},
    {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, **SMALL},
    {"model_type": "qwen2_moe", "shared_expert_intermediate_size": 16, **EXPERTS, **SMALL},
    {"model_type": "qwen3", "attention_bias": True, **SMALL},
    {"model_type": "qwen3_moe", **EXPERTS, **SMALL},
    {"model_type": "deepseek_v2", **SMALL, **LATENT, "n_shared_experts": 2, "q_lora_rank": None},
    {"model_type": "deepseek_v3", **SMALL, **LATENT, "n_shared_experts": 1, "q_lora_rank": 8, "n_group": 1, "topk_group": 1},
    {"model_type": "gpt_oss", "num_local_experts": 4, "num_experts_per_tok": 2, **SMALL},
    {"model_type": "glm4", **SMALL},
    {"model_type": "glm4", "attention_bias": False, **SMALL},
    {"model_type": "phi3", **SMALL},
    {"model_type": "phi3", "tie_word_embeddings": True, **SMALL},
    {"model_type": "gemma2", "attention_bias": True, **SMALL},
    {"model_type": "olmo2", "attention_bias": True, **SMALL},
    {**FALCON, "bias": True, "multi_query": False, "parallel_attn": False, "alibi": True},
    {**FALCON, "num_kv_heads": 2, "new_decoder_architecture": True, "num_ln_in_parallel_attn": 1},
    {"model_type": "gpt_neox", "use_parallel_residual": False, "attention_bias": False, **SMALL},
    {"model_type": "opt", "hidden_size": 64, "ffn_dim": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 64,
     "word_embed_proj_dim": 64, "do_layer_norm_before": False},
    {"model_type": "opt", "hidden_size": 64, "ffn_dim": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 64,
     "word_embed_proj_dim": 64, "enable_bias": False},
    {"model_type": "t5", "d_model": 32, "d_ff": 48, "d_kv": 8, "num_heads": 4, "num_layers": 2, "num_decoder_layers": 3,
     "vocab_size": 64, "feed_forward_proj": "gated-gelu"},
]


def build(config, classes):
    keys = {key: value for key, value in config.items() if key != "model_type"}
    made = AutoConfig.for_model(config["model_type"], **{"pad_token_id": 0, **keys})
    klass = classes.get(config["model_type"])
    model = klass(made) if klass else AutoModelForCausalLM.from_config(made)
    model.tie_weights()
    return model


# Parameters, and the stored numbers that balance experts.
def count(config):
    with torch.device("meta"):
        model = build(config, {"bert": BertModel, "t5": T5ForConditionalGeneration})
    stored = [b for name, b in model.named_buffers() if "e_score_correction" in name]
    return sum(t.numel() for t in [*model.parameters(), *stored])


def buckets(config):
    model = build(config, {"bert": BertForPreTraining, "t5": T5ForConditionalGeneration})
    parallel = torch.nn.parallel.DistributedDataParallel(model.train(), bucket_cap_mb=1)
    sizes = []

    def reduce(_, bucket):
        sizes.append(bucket.buffer().numel())
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    parallel.register_comm_hook(None, reduce)
    tokens = torch.arange(1, 17).reshape(1, 16)
    more = {"next_sentence_label": torch.tensor([1])} if config["model_type"] == "bert" else {}
    for _ in range(2):
        sizes.clear()
        parallel(input_ids=tokens, labels=tokens, **more).loss.backward()
    return sizes


def main():
    warnings.filterwarnings("ignore")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29531", RANK="0", WORLD_SIZE="1")
    dist.init_process_group("gloo")
    models = [{"config": c, "parameters": count(c), "buckets": buckets(c)} for c in TRAINED]
    models += [{"config": c, "parameters": count(c)} for c in COUNTED]
    made_by = f"torch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}"
    rows = ",\n".join("  " + json.dumps(m) for m in models)
    path = Path(__file__).parent / "families" / "families.json"
    path.write_text(f'{{"made_by": "{made_by}",\n "models": [\n{rows}\n]}}\n')


if __name__ == "__main__":
    sys.exit(main())
