"""The second language of what the command line prints: English sentences found in a catalogue.

Sentences are made, kept and sent in English; where one is shown to a person it passes through ``say``. What the catalogue has
no words for stays as it is.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, TextIO

from loaderwatch.core.environment_variables import LANGUAGE, LANGUAGE_TAG
from loaderwatch.core.printable import Printable

HOLES: Final = {
    "": r"([\s\S]*?)",
    "%": r"([<>≤≥~+−-]?\d[\d.,]*(?:–[\d.,]+)? ?%|nan %)",
    "s": r"([<>≤≥~+−-]?\d[\d.,]* ?(?:ms|µs|min|s|h|d)(?: \d+ (?:s|min|h))?|an unknown time)",
    "n": r"([-−+~]?\d[\d.,]*(?: (?!(?:of|the|in|by|to|and|at|for|is|are|from|within|on|with|each|per|share|or)\b)[A-Za-z][\w/-]*){0,3}|an unknown number of \w+|any number)",
    "d": r"([<>≤≥~+−-]?\d[\d.,]*)",
}
"""How a hole of each kind looks in a text: anything, a share, a duration, a number with its noun, digits alone."""
NO_FRACTION: Final = r"(?!\d)"  # a full stop, and no decimal point
LEAST_LETTERS: Final = 3
LESS_SAID: Final = 0.1
"""A number with its noun may be a duration as well: of two sentences with the same letters the other one is meant."""
SAYS_MUCH: Final = 16
"""A sentence of several needs so many letters of its own: the holes of a short one would swallow the others."""
MOST_WAYS: Final = 3
MOST_LEFT: Final = 2
MOST_KEPT: Final = 5_000
LONGEST: Final = 1_200
"""No sentence of ours is so long. What is may come from a script, and holes would be looked for in it for seconds."""
FRAMES: Final = (
    (re.compile(r"\n"), "\n"),
    (re.compile(r"(?<=^loaderwatch:) "), " "),
    (re.compile(r"(?<=^\[)([\w-]+\] )"), ""),
    (re.compile(" — "), " — "),
)
"""What several sentences are put together with; there they are cut before any of them is looked for."""
STOP: Final = re.compile(r"(?<=[^\s.][.!?]) (?=\S)")
SUBJECT: Final = ((re.compile(r"^(Training|Both ranks|All \d+ ranks|Ranks? \d+(?:(?:,| and) \d+)*) "), ""),)
"""Who a sentence is about, as ``detect.text.ranks_phrase`` begins it."""
CUTS: Final = (
    (re.compile(" · "), " · "),
    (re.compile("; "), "；"),
    (re.compile(": "), "："),
    (re.compile(", "), "，"),
    (re.compile(" and "), " 和 "),
)
"""Where a text is cut if no sentence is all of it, and what stands there then."""
_FILLED: Final = re.compile(r"\{(\d+)(?::([^}]*))?\}")
_ENGLISH: Final = re.compile(
    r"(?<![\w./`=(-])(?!(?:worker|rank|epoch|pid)\b)[a-z']{2,}(?![\w./`=(])|(?<![\w./`=(-])[A-Z][a-z]{2,} [a-z]",
    re.ASCII,
)
_NARROW: Final = re.compile("[\u202f\u00a0]")
_PAUSES: Final = "，；："
_FULL: Final = re.compile("[，。；：？！]$")
_STOPPED: Final = re.compile(r"[。.](?=[，。；：）)])")
_SPACED: Final = re.compile(
    r"(?<=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]) +(?=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])"
)
_LATIN: Final = re.compile("[A-Za-z0-9]")
_HAN: Final = re.compile("[\u4e00-\u9fff]")
HAN_PER_WORD: Final = 8
_AROUND: Final = re.compile(r"^([\s·]*)([\s\S]*?)(\s*)$")


@dataclass(frozen=True, slots=True)
class _Sentence:
    pattern: re.Pattern[str]
    anchor: str
    weight: float
    choices: tuple[tuple[str, ...], ...]
    said: str


class Language:
    """A catalogue, ready to be asked."""

    def __init__(self, catalogue: Mapping[str, str]) -> None:
        self._whole = {key: said for key, said in catalogue.items() if "{" not in key}
        found = (_sentence(key, said) for key, said in catalogue.items() if "{" in key)
        self._sentences = sorted(
            (sentence for sentence in found if sentence is not None), key=lambda sentence: -sentence.weight
        )
        self._kept: dict[str, str] = {}

    def say(self, text: str) -> str:
        """Return the text in this language, or as it is: half of each would be worse than either."""
        said = self._say(text)
        left = _words_left(said)
        return text if left > MOST_LEFT and 2 * left > _words_left(text) else said

    def _say(self, text: str) -> str:
        if text not in self._kept:
            if len(self._kept) > MOST_KEPT:
                self._kept.clear()
            around = _AROUND.match(text)
            before, inner, after = around.groups() if around else ("", text, "")
            plain = _NARROW.sub(" ", inner)  # as the page sets numbers apart from their units
            said = self._best(plain)
            if said == plain:
                self._kept[text] = text
            else:
                self._kept[text] = before + said if _FULL.search(said) else before + said + after
        return self._kept[text]

    def _best(self, text: str) -> str:
        """Return that way to say a text, whole or in parts, which leaves the fewest English words."""
        if not re.search("[A-Za-z%]", text):
            return text
        if _is_said(text):
            return next(iter(self._known(text)), text)
        framed = self._cut(text, FRAMES)
        if framed is not None:
            return framed
        if len(text) > LONGEST:
            return text
        several = STOP.search(text) is not None
        ways = [*self._known(text, SAYS_MUCH if several else 0), self._cut(text, SUBJECT)]
        ways += [self._in_sentences(text)] if several else []
        if all(way is None or _words_left(way) for way in ways):
            ways.append(self._cut(text, CUTS))
        return min((way for way in ways if way is not None), key=_words_left, default=text)

    def _known(self, text: str, least: int = 0) -> list[str]:
        """Return what the catalogue has for all of a text, whose full stop may be missing: the likeliest first, a few at most."""
        found = self._exactly(text, least)
        if all(map(_words_left, found)) and not text.endswith("."):
            found += [said.removesuffix("。") for said in self._exactly(text + ".", least)]
        return found

    def _exactly(self, text: str, least: int) -> list[str]:
        if text in self._whole:
            return [self._whole[text]]
        ways: list[str] = []
        for sentence in self._sentences:
            if sentence.weight < least or len(ways) == MOST_WAYS:
                break
            found = sentence.pattern.match(text) if sentence.anchor in text else None
            if found is not None:
                ways.append(self._filled(sentence, found, text))
                if not _words_left(ways[-1]):
                    break
        return ways

    def _in_sentences(self, text: str) -> str:
        """Return the text said in runs of its sentences, those that leave the fewest English words."""
        parts = STOP.split(text)
        rest = [""]  # the best way to say the last ones, beginning with none
        for at in reversed(range(len(parts))):
            ways = [_joined(self._say(parts[at]), rest[0])]
            for end in range(at + 2, len(parts) + (1 if at > 0 else 0)):
                runs = self._known(" ".join(parts[at:end]), SAYS_MUCH)
                ways += [_joined(run, rest[end - at - 1]) for run in runs]
            rest.insert(0, min(reversed(ways), key=_words_left))
        return rest[0]

    def _cut(self, text: str, cuts: Sequence[tuple[re.Pattern[str], str]]) -> str | None:
        """Return the text said part by part, by the first cut that helps; None where none does."""
        for at, between in cuts:
            parts = at.split(text)
            if len(parts) == 1:
                continue
            said, cut = "", at.findall(text)
            for place, part in enumerate(parts):
                # Some begin with what they are appended by: ", and 3 s since".
                appended = (
                    self._known(cut[place - 1] + part) if place and between and between in _PAUSES else []
                )
                said += min([*appended, (between if place else "") + self._say(part)], key=_words_left)
            if said != between.join(parts):
                return _tidy(said)
        return None

    def _filled(self, sentence: _Sentence, found: re.Match[str], text: str) -> str:
        def fill(hole: re.Match[str]) -> str:
            number, choice = int(hole[1]), hole[2]
            filled = found[number] or ""
            if choice is None:
                return _apart(hole, filled if filled == text else self._say(filled))
            words, of = choice.split("|"), sentence.choices[number - 1]
            at = of.index(filled) if filled in of else 0
            return words[at] if at < len(words) else ""

        return _tidy(_FILLED.sub(fill, sentence.said))


def _apart(hole: re.Match[str], filled: str) -> str:
    """Return what fills a hole with a space where a Latin letter or a digit would touch a Chinese character."""
    before, after = hole.string[: hole.start()][-1:], hole.string[hole.end() :][:1]
    starts, ends = _LATIN.match(filled), _LATIN.match(filled[-1:])
    return (
        (" " if starts and _HAN.match(before) else "") + filled + (" " if ends and _HAN.match(after) else "")
    )


def _is_said(text: str) -> bool:
    """Whether a text is in this language already: it has far more characters of it than English words."""
    return len(_HAN.findall(text)) > HAN_PER_WORD * _words_left(text)


def _joined(before: str, after: str) -> str:
    return before + ("" if not after or _FULL.search(before) else " ") + after


def _words_left(text: str) -> int:
    """Return how many English words a text has left, as far as they do not look like names."""
    return len(_ENGLISH.findall(text))


def _tidy(text: str) -> str:
    """Return a text whose parts were put together without what they bring along: a full stop within, spaces between characters."""
    return _SPACED.sub("", _STOPPED.sub("", text))


def _sentence(key: str, said: str) -> _Sentence | None:
    """Return a sentence of the catalogue; None where it says too little to be told from others."""
    pieces = re.split(r"\{([^}]*)\}", key.removesuffix("."))
    literals, holes = pieces[::2], pieces[1::2]
    chosen = (min(hole.split("|"), key=len) for hole in holes if hole not in HOLES)
    own = "".join([*literals, *chosen])
    letters = sum(character.isascii() and (character.isalpha() or character == "`") for character in own)
    if "" in holes and letters < LEAST_LETTERS:
        return None
    source = "".join(
        re.escape(piece) + (NO_FRACTION if piece.endswith(".") else "")
        if place % 2 == 0
        else HOLES.get(piece) or "(" + "|".join(map(re.escape, piece.split("|"))) + ")"
        for place, piece in enumerate(pieces)
    )
    return _Sentence(
        pattern=re.compile(source + r"\.?\Z", re.ASCII),
        anchor=max(literals, key=len),
        weight=letters - holes.count("") - LESS_SAID * holes.count("n"),
        choices=tuple(() if hole in HOLES else tuple(hole.split("|")) for hole in holes),
        said=said,
    )


def say(text: str) -> str:
    """Return a text as this process's reader reads it: in Chinese where LOADERWATCH_LANGUAGE or the locale asks for that."""
    language = spoken()
    return text if language is None else language.say(text)


def asks_for_chinese(environ: Mapping[str, str]) -> bool:
    """Whether LOADERWATCH_LANGUAGE ("zh" or "en"), else the locale of messages, asks for Chinese."""
    chosen = LANGUAGE.read(environ)
    if chosen is None:
        names = ("LC_ALL", "LC_MESSAGES", "LANG")
        chosen = LANGUAGE_TAG.parse(next((environ[name] for name in names if environ.get(name)), ""), "LANG")
    return chosen == "zh"


def own_language() -> str:
    """Return the language of this process's reader: "zh" or "en"."""
    return "zh" if asks_for_chinese(os.environ) else "en"


@lru_cache(maxsize=1)
def spoken() -> Language | None:
    """Return this process's second language; None where English is spoken."""
    return chinese() if own_language() == "zh" else None


@lru_cache(maxsize=1)
def chinese() -> Language | None:
    """Return the Chinese of the catalogue; None where its file is missing or damaged."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package, package.parent):
        try:
            text = (folder / "web" / "lang" / "zh.json").read_text(encoding="utf-8")
            catalogue = json.loads(text)
            return Language(catalogue["sentences"] | catalogue["parts"])
        except (OSError, ValueError, KeyError):  # whoever speaks goes on in English
            continue
    return None


class Spoken(Printable):
    """A stream for people: each line is written as its reader reads it."""

    def __init__(self, stream: TextIO, language: Language) -> None:
        super().__init__(stream)
        self._language = language
        self._begun = ""

    def write(self, text: str) -> int:
        """Write whole lines in the language; what is begun waits for its end or a flush."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            super().write(self._language.say(line) + "\n")
        return len(text)

    def flush(self) -> None:
        """Write what is begun, too."""
        begun, self._begun = self._begun, ""
        if begun:
            super().write(self._language.say(begun))
        super().flush()
