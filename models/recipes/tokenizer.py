"""The tokenizer: cased BPE over words, punctuation kept apart, `<pad>` first and `<blank>` last.

    python -m recipes.tokenizer --corpus DATA/kathleen-en ... --restored TEXT --pool pool.txt --out tokenizer.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from .targets import load_targets

PAD, UNKNOWN, BLANK = "<pad>", "<unk>", "<blank>"
PIECES = 384


def train_tokenizer(texts: list[str], pieces: int = PIECES) -> Tokenizer:
    """A tokenizer of exactly `pieces` entries where the texts are large enough to fill it."""
    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Metaspace(prepend_scheme="always"),
        pre_tokenizers.Split(Regex(r"[.,?!;:\-]"), behavior="isolated"),
    ])  # fmt: skip
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    alphabet = [*"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz.,?!'-;:", "\u2581"]
    trainer = trainers.BpeTrainer(
        vocab_size=pieces - 1,
        special_tokens=[PAD, UNKNOWN],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(BLANK, special=True, normalized=False)])
    return tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, action="append", default=[])
    parser.add_argument("--restored", type=Path, help="folder of tables with punctuation and case")
    parser.add_argument("--pool", type=Path, help="further sentences, one a line")
    parser.add_argument("--pieces", type=int, default=PIECES)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    texts = [text for corpus in args.corpus for text in load_targets(corpus, args.restored).values()]
    spoken = len(texts)
    if args.pool:
        texts += args.pool.read_text(encoding="utf-8").splitlines()
    tokenizer = train_tokenizer(texts, args.pieces)
    tokenizer.save(str(args.out))
    print(f"{tokenizer.get_vocab_size()} pieces from {spoken} spoken and {len(texts) - spoken} other sentences")


if __name__ == "__main__":
    main()
