#!/usr/bin/env python3
"""Writes text_expected.def: the results of open_clip's text tower and similarities for weights given by a formula, so that
tests/vit/test_text.c can compare its results without Python. Needs torch and open_clip_torch; run by hand when the formula changes.
    python3 tests/interop/text_reference.py > tests/interop/text_expected.def
"""
import math

import torch
from open_clip.transformer import TextTransformer

WIDTH, HEADS, LAYERS, CONTEXT, VOCABULARY, EMBED = 8, 2, 2, 6, 258, 5
TOKENS = [[256, 7, 3, 9, 1, 257], [256, 7, 257, 0, 0, 0], [256, 2, 2, 257, 0, 0], [256, 100, 7, 3, 257, 0]]


def value(name, shape):
    """Element i of the tensor: sin(1.3 i + letters) / 3, where letters is the sum of the bytes of its name; norms are larger by 1."""
    count = math.prod(shape)
    letters = sum(name.encode())
    one = 1.0 if name.endswith(("ln_1.weight", "ln_2.weight", "ln_final.weight")) else 0.0
    return torch.tensor([one + math.sin(1.3 * i + letters) / 3 for i in range(count)], dtype=torch.float64).reshape(shape).float()


def row(numbers):
    print("    " + ", ".join(f"{x:.9g}" for x in numbers) + ",")


def tower(**options):
    made = TextTransformer(context_length=CONTEXT, vocab_size=VOCABULARY, width=WIDTH, heads=HEADS, layers=LAYERS,
                           output_dim=EMBED, **options).eval()
    own = made.state_dict()
    made.load_state_dict({name: value("text." + name, t.shape) if t.is_floating_point() else t for name, t in own.items()})
    return made


def main():
    with torch.no_grad():
        texts = tower()(torch.tensor(TOKENS))
        images = value("images", (len(TOKENS), EMBED))
        unit = torch.nn.functional.normalize
        logits = math.exp(1.5) * unit(images, dim=-1) @ unit(texts, dim=-1).T
        unmasked = [tower(no_causal_mask=True, pool_type=pool)(torch.tensor(TOKENS)) for pool in ("argmax", "first", "last")]
    print("/* Written by text_reference.py: texts [4,5], similarities [4,4] at a factor of exp(1.5); texts of")
    print(" * towers without a mask, pooled at the end token, the first, and the last place. */")
    for numbers in texts.tolist() + logits.tolist() + [text for texts in unmasked for text in texts.tolist()]:
        row(numbers)


if __name__ == "__main__":
    main()
