"""Writes clean_expected.def: texts as open_clip cleans them, which uses ftfy.

    python3 tests/interop/clean_reference.py > tests/interop/clean_expected.def

Texts whose letters were decoded wrongly, and names of HTML that smoe does not know, are not among them.
"""
import html.entities
import random

from open_clip.tokenizer import get_clean_fn

TEXTS = [
    'hello world',
    'Don\u2019t \u201cquote\u201d \u2018x\u2019 \u201b \u201e low \u201f',
    'cafe\u0301 na\xefve re\u0301sume\u0301',
    '\ufb01ne \ufb02y o\ufb03ce \ufb04 \ufb05 \ufb06 \u0149 \u01c4 \u01c5 \u01c6 \u01c7 \u01f1 \u0132 \u0133',
    '\uff28\uff25\uff2c\uff2c\uff2f\u3000\uff57\uff4f\uff52\uff4c\uff44\uff01 \uff71\uff72\uff73 \uffa1\uffa2 \uffe5 \uffe6',
    '\ufeffBOM first',
    'in\ufeffside',
    '&amp &lt &gt &quot',
    'AT&amp;T',
    '&amp;amp; &amp;amp;amp; &amp;lt;b&amp;gt;',
    '&#128; &#150; &#x80; &#x97;',
    '&#0; &#x110000; &#xD800; &#55296;',
    '&#8; &#11; &#31; &#127; &#xFDD0; &#xFFFE;',
    '&eacute;t&eacute; &Eacute; &EACUTE; &copy &reg &trade; &hellip; &mdash; &nbsp;x',
    '&notit; &not; &notin; &ampx &amp=3',
    '&hearts; &NotEqualTilde; &nosuch; &; & a &#; &#x; &#xg;',
    '<b>&eacute;</b>',
    '<i>\u201cx\u201d &rsquo; &amp;lt;</i>',
    'a&rsquo;b',
    'line one\nline two <x> &amp;amp;lt;\nline &amp;amp;amp;lt; three',
    'tabs\tand\r\nreturns\r mac\u2028sep\u2029par\x85nel',
    '\x1b[31mred\x1b[0m \x1b[1;32mgreen\x1bx',
    'ctl\x01\x02\x0b\x0c\x1c\x1d\x7f end',
    'soft\xadhyphen zwj\u200dx zwnj\u200cx lrm\u200ex',
    '\u206a\u206f \ufff9\ufffa\ufffb\ufffc\ufffd',
    'Stra\xdfe STRASSE \u0130stanbul \u0131 I\u0307',
    '\u03a3\u03a3 \u039f\u0394\u039f\u03a3 \u039f\u0394\u039f\u03a3. \u03a3',
    '\u1e9e \ufb00',
    'emoji \U0001f600 \U0001f1e9\U0001f1ea \U0001f468\u200d\U0001f469\u200d\U0001f467',
    '\u4e2d\u6587 \u65e5\u672c\u8a9e \ud55c\uad6d\uc5b4 \u1112\u1161\u11ab',
    '\u0915\u093f\u0915\u093f \u0e01\u0e33',
    '1\xbd 2\xb2 \u2167 \u0663',
    '$100 & 50% #1 @x a_b a-b a/b (c) [d] {e}',
    "it's we're I'll they've I'd",
    '  leading  and   trailing  ',
    '',
    '   ',
    '_under_score_',
    '!!!',
    '\u2026 \u2013 \u2014 \u2022 \u20ac \xa3',
    '\u0391\u0301 \u1fb9 \u2126 \u212b \u212a',
    '\u0344 \u0958 \u2adc \ufb1d',
    'a\u0327\u0301 q\u0307\u0323 q\u0323\u0307',
    '\xa0nbsp\xa0x\u2003em\u2009thin\u202fnn\u205fmm\u1680og',
    '\u180emongolian \u200bzwsp',
    '&#38;#38;lt;',
    '&#38;lt;',
    '&quot;x&apos;y',
    '\u02bc \u02bb \xb4 ` \u2032 \u2033',
    '\xab x \xbb \u2039 y \u203a',
    '<start_of_text> <end_of_text>',
    '\x80\x93\x9d c1',
    '&#xA0;&#160;z',
    '&AMP; &LT &COPY; &QUOT;',
    '\xc3\xa9',
    '\xe2\u20ac\u2122 quote',
    '\xe2\u20ac\u0153x\xe2\u20ac\x9d',
    'na\xc3\xafve',
    '\uff06amp; \uff1cb\uff1e',
    '\uffe0\uffe1\uffe2\uffe3\uffe4 \uffe8 \uff61\uff9e \uff76\uff9e',
    '\uff5f\uff60 \uff04',
    '\u1f88 \u1fbc \u01c5',
    '\u0149x',
]
UNKNOWN = ("&EACUTE;", "NotEqualTilde", "\xc3\xa9", "\xe2\u20ac", "\xc3\xaf")

draw = random.Random(3)
legacy = sorted(name for name in html.entities.html5 if not name.endswith(";"))
html4 = sorted(name + ";" for name in html.entities.name2codepoint)
for _ in range(40):
    tail = draw.choice(["", " ", "y", ";", "=", "1"])
    TEXTS.append(f"x &{draw.choice(legacy)}{tail} z &{draw.choice(html4)} &amp;{draw.choice(html4)}")
for _ in range(60):
    parts = [
        "&#%d;" % draw.randrange(1, 400), "&#x%x" % draw.randrange(1, 0x3000), "\u2019", "\ufb01", "e\u0301", "A", " ",
        "\u3000", chr(draw.randrange(0xFF01, 0xFFEF)), "&amp;", "<", "\n", "\u0300", chr(draw.randrange(0x80, 0x250)),
    ]
    TEXTS.append("".join(draw.choice(parts) for _ in range(draw.randrange(1, 16))))


def literal(text):
    """A string of C, in parts on lines of at most 100 columns."""
    parts = [""]
    for b in text.encode():
        one = chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else "\\%03o" % b
        if len(parts[-1] + one) > 88:
            parts.append("")
        parts[-1] += one
    return "\n      ".join(f'"{part}"' for part in parts)


lower, canonical = get_clean_fn("lower"), get_clean_fn("canonicalize")
print("/* Made by clean_reference.py: CLEAN(text, in lower case, without punctuation). clang-format off */")
for text in TEXTS:
    if not any(word in text for word in UNKNOWN):
        print(f"CLEAN({literal(text)},\n      {literal(lower(text))},\n      {literal(canonical(text))})")
