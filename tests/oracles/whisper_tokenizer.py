"""The vocabulary of the Whisper checkpoints and the files of a published tokenizer."""

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers.models.whisper.tokenization_whisper import LANGUAGES

TIMESTAMPS = [f"<|{0.02 * i:.2f}|>" for i in range(1501)]
PIECES = (
    " t| a|he|in|re|on| the|er|ou|nd| s| w|or|at|is|en| and| to|ing| of| that|it|ed|an|es|ar|al|st| I| you| b| c| f| h| m"
    "| be| we| is| it| for| not| can| do| what| ask| your| country|..| -| '|'s|'t| d|ch|sch| der| die| und|ä|ü|ß| п|о|т|то|е"
    "|и| не|с|р| в|是|的|不|の|は|を|ます|ال| و|ي|น|า|ไม|。|、|，|！|？|“|”| (| \"| ¿"
).split("|")
"""Text pieces in the order of their merges; the prefixes of a piece that is not a merge of two earlier
ones are added before it."""


def letters() -> list[str]:
    """The 256 characters that encode bytes, in the published order."""
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def letter_of_byte() -> dict[int, str]:
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printed]
    return {byte: chr(byte) for byte in printed} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def merges() -> list[tuple[str, str]]:
    table = letter_of_byte()
    known, found = set(letters()), []

    def add(piece: str) -> None:
        if piece in known:
            return
        splits = [(piece[:i], piece[i:]) for i in range(len(piece) - 1, 0, -1)]
        split = next((s for s in splits if s[0] in known and s[1] in known), None)
        if split is None:
            add(piece[:-1])
            split = splits[0]
        known.add(piece)
        found.append(split)

    for piece in PIECES:
        add("".join(table[byte] for byte in piece.encode()))
    return found


class Layout:
    """Ids of one checkpoint's vocabulary."""

    def __init__(self, languages: int, no_speech: str, multilingual: bool, pieces: int = 0):
        # The multilingual vocabularies end with an entry of zero bytes.
        self.merges = merges()
        self.text = letters() + ["".join(pair) for pair in self.merges]
        # Fills up a vocabulary to the published size with pieces that no merge produces.
        self.text += [f"Ġ<{i}>" for i in range(len(self.text) + multilingual, pieces)]
        self.text += [""] if multilingual else []
        codes = [f"<|{code}|>" for code in list(LANGUAGES)[:languages]]
        self.special = ["<|endoftext|>", "<|startoftranscript|>", *codes, "<|translate|>", "<|transcribe|>",
                        "<|startoflm|>", "<|startofprev|>", no_speech, "<|notimestamps|>"]  # fmt: skip
        pieces = self.text + self.special + TIMESTAMPS
        self.ids = {piece: i for i, piece in enumerate(pieces)}
        self.size = len(pieces)
        self.languages = {code: self.ids[code] for code in codes}
        self.no_speech = self.ids[no_speech]
        self.timestamps = self.ids["<|0.00|>"]

    def __getattr__(self, name: str) -> int:
        return self.ids[f"<|{name}|>"]

    @property
    def init_tokens(self) -> set[int]:
        """What the decoder's input may begin with, after a prompt."""
        return {self.startoftranscript, self.translate, self.transcribe, self.notimestamps, *self.languages.values()}

    def suppressed(self) -> list[int]:
        symbols = [self.ids[c] for c in "\"#()*+/:;<=>@[\\]^_`{|}~"] + [self.ids[p] for p in ("Ġ-", "Ġ'", 'Ġ"', "Ġ(")]
        control = [self.startoftranscript, self.translate, self.transcribe, self.startoflm, self.startofprev]
        return sorted([*symbols, *control, self.no_speech])


def save_tokenizer(layout: Layout, folder: Path) -> None:
    """The files of a published tokenizer. Timestamps are added tokens that are not special."""
    vocabulary = {piece: i for i, piece in enumerate(layout.text)} | {"<|endoftext|>": layout.endoftext}
    model = models.BPE(vocabulary, layout.merges, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False)
    core = Tokenizer(model)
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in layout.special])
    core.add_tokens([AddedToken(token, normalized=True, special=False) for token in TIMESTAMPS])
    start = ["<|startoftranscript|>", "<|notimestamps|>"]
    core.post_processor = processors.TemplateProcessing(
        single=[*start, "$A", "<|endoftext|>"],
        pair=[*start, "$A", "$B:1", "<|endoftext|>:1"],
        special_tokens=[(token, layout.ids[token]) for token in [*start, "<|endoftext|>"]],
    )
    whole = json.loads(core.to_str())
    whole["model"]["merges"] = [" ".join(pair) for pair in layout.merges]
    del whole["model"]["ignore_merges"]
    write(folder, "tokenizer", whole)
    added = {
        str(layout.ids[token]): {"content": token, "lstrip": False, "normalized": token in TIMESTAMPS, "rstrip": False,
                                 "single_word": False, "special": token not in TIMESTAMPS}
        for token in layout.special + TIMESTAMPS
    }  # fmt: skip
    end = {role: "<|endoftext|>" for role in ("bos_token", "eos_token", "pad_token", "unk_token")}
    write(folder, "tokenizer_config", {
        "add_bos_token": False, "add_prefix_space": False, "added_tokens_decoder": added,
        "additional_special_tokens": layout.special, **end, "clean_up_tokenization_spaces": True, "errors": "replace",
        "model_max_length": 1024, "processor_class": "WhisperProcessor", "return_attention_mask": False,
        "tokenizer_class": "WhisperTokenizer",
    })  # fmt: skip
    whole = {"content": "<|endoftext|>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    write(folder, "special_tokens_map", {"additional_special_tokens": layout.special,
                                         **{role: whole for role in ("bos_token", "eos_token", "unk_token")},
                                         "pad_token": "<|endoftext|>"})  # fmt: skip
    write(folder, "vocab", vocabulary)
    write(folder, "added_tokens", dict(sorted((token, layout.ids[token]) for token in layout.special + TIMESTAMPS)))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in layout.merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n")
    write(folder, "normalizer", {"colour": "color", "grey": "gray", "labour": "labor", "organise": "organize"})


CLASS_ALONE = ("vocab.json", "merges.txt", "added_tokens.json", "special_tokens_map.json", "tokenizer_config.json", "normalizer.json")
"""Files that the published class reads, and the engine does not."""


def leave_engines_files(folder: Path) -> None:
    for name in CLASS_ALONE:
        (folder / name).unlink()


def write(folder: Path, name: str, value: dict) -> None:
    (folder / f"{name}.json").write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
