"""The script of the skill translation-catalog-audit finds what is missing and what breaks, in each format."""

import json
import plistlib
from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("translation-catalog-audit", "audit_catalogs.py")


def write(folder: Path, **files: object) -> Path:
    """Write catalogs; in a name __ stands for / and _DOT_ for the last dot."""
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return folder


def found(report: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return rule, locale, key and text of each finding."""
    return [(rule, one["locale"], one["key"], one["text"]) for rule, rows in report["findings"].items() for one in rows]


def pair(folder: Path, source: object, other: object, locale: str = "de") -> list[tuple[str, str, str]]:
    """Return rule, key and text of what is found between an English JSON catalog and another."""
    write(folder, **{"en_DOT_json": source, f"{locale}_DOT_json": other})
    return [(rule, key, text) for rule, _, key, text in found(run_json(*SCRIPT, folder))]


def test_missing_extra_and_empty_messages_are_counted_by_language(tmp_path: Path) -> None:
    write(
        tmp_path,
        en_DOT_json={"a": {"b": "One", "c": "Two"}, "d": "Three"},
        de_DOT_json={"a": {"b": "Eins", "c": ""}, "x": "?"},
    )
    report = run_json(*SCRIPT, tmp_path)
    assert report["locales"] == [
        {"locale": "de", "messages": 3, "missing": 1, "untranslated": 1, "fuzzy": 0, "extra": 1, "errors": 0}
    ]
    assert {one[:3] for one in found(report)} == {
        ("missing", "de", "d"),
        ("untranslated", "de", "a.c"),
        ("extra", "de", "x"),
    }
    assert run_script(*SCRIPT, tmp_path).returncode == 0
    assert run_script(*SCRIPT, tmp_path, "--gaps-fail").returncode == 1


@pytest.mark.parametrize(
    ("source", "other", "text"),
    [
        ("Hi {name}", "Hallo {nmae}", "lacks {name} and has {nmae}"),
        ("Hi {{name}}", "Hallo", "lacks {name}"),
        ("Read the <link>terms</link>", "Lies die <link>Regeln", "lacks </link>"),
        ("%s of %d", "%d von %s", "lacks %1$s %2$d and has %1$d %2$s"),
        ("%{count} files", "%{anzahl} Dateien", "lacks {count} and has {anzahl}"),
        ("{n, plural, one {#} other {#}} by {who}", "{n, plural, one {#} other {#}}", "lacks {who}"),
    ],
)
def test_placeholders_that_differ_are_errors(tmp_path: Path, source: str, other: str, text: str) -> None:
    assert pair(tmp_path, {"k": source}, {"k": other}) == [("placeholder", "k", text)]
    assert run_script(*SCRIPT, tmp_path).returncode == 1


@pytest.mark.parametrize("text", ["{name} kauft <b>{ n }</b>", "100 % der {n} von {name}<b></b>"])
def test_placeholders_in_another_order_and_a_per_cent_sign_are_no_findings(tmp_path: Path, text: str) -> None:
    assert pair(tmp_path, {"k": "<b>{name}</b> buys {n}"}, {"k": text}) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{n, plural, one {# Datei} other {# Dateien}", "plural of n is never closed"),
        ("{n, plural, one {# Datei}}", "plural of n lacks `other`"),
        ("{n, plural, one {#} other {#}} }", "`}` without `{` at character 32"),
        ("{n, plurl, one {#} other {#}} {n, select, other {}}", "{n, plurl: unknown type or not closed"),
        (
            "d'{n, plural, one {#} other {#}}",
            "an apostrophe before a brace quotes to the end: write '' for an apostrophe",
        ),
    ],
)
def test_syntax_errors_of_icu_messages_are_named(tmp_path: Path, text: str, problem: str) -> None:
    findings = pair(tmp_path, {"k": "{n, plural, one {# file} other {# files}}"}, {"k": text})
    assert ("syntax", "k", problem) in findings


@pytest.mark.parametrize(
    ("locale", "text", "expected"),
    [
        ("pl", "{n, plural, one {#} other {#}}",
         [("plural", "lacks few, many: pl needs one, few, many"), ("", "")]),
        ("pl", "{n, plural, one {#} few {#} many {#} other {#}}", []),
        ("ja", "{n, plural, other {#}}", []),
        ("ja", "{n, plural, one {#} other {#}}", [("unused-plural", "one of n: ja never asks for it")]),
        ("fr", "{n, plural, one {#} other {#}}",
         [("rare-plural", "plural of n lacks many: only fractions or millions reach it")]),
        ("ar", "{n, plural, =0 {#} =1 {#} =2 {#} few {#} many {#} other {#}}", []),
        ("ru", "{n, plural, =1 {#} few {#} many {#} other {#}}",
         [("plural", "plural of n lacks one: ru needs one, few, many")]),
    ],
)  # fmt: skip
def test_each_language_needs_its_own_plural_categories(
    tmp_path: Path, locale: str, text: str, expected: list[tuple[str, str]]
) -> None:
    findings = pair(tmp_path, {"k": "{n, plural, one {# x} other {# xs}}"}, {"k": text}, locale)
    wanted = [(rule, end) for rule, end in expected if rule]
    assert len(findings) == len(wanted)
    assert all(rule == a and text.endswith(end) for (rule, _, text), (a, end) in zip(findings, wanted, strict=True))


def test_plural_suffixes_of_i18next_are_one_message(tmp_path: Path) -> None:
    english = {"n_one": "{{count}} file", "n_other": "{{count}} files", "type_one": "first type"}
    russian = {"n_one": "файл", "n_few": "{{count}} файла", "n_other": "{{count}} файла", "type_one": "первый тип"}
    assert pair(tmp_path, english, russian, "ru") == [
        ("placeholder", "n", "`one` lacks {count}; in ru it is not only 1"),
        ("plural", "n", "plural lacks many: ru needs one, few, many"),
    ]


@pytest.mark.parametrize("locale", ["de", "sv"])
@pytest.mark.parametrize("icu", [False, True])
def test_ordinals_have_categories_of_their_own(tmp_path: Path, locale: str, icu: bool) -> None:
    ends = {"one": "st", "two": "nd", "few": "rd", "other": "th"}
    english = {f"at_ordinal_{form}": "{{count}}" + end for form, end in ends.items()}
    other = {"at_ordinal_other": "{{count}}."}
    if icu:
        english = {"at": "{n, selectordinal, one {#st} two {#nd} few {#rd} other {#th}}"}
        other = {"at": "{n, selectordinal, other {#.}}"}
    key, name = ("at", " of n") if icu else ("at_ordinal", "")
    wanted = [("plural", key, f"plural{name} lacks one: sv needs one, other")]
    assert pair(tmp_path, english, other, locale) == (wanted if locale == "sv" else [])


def test_a_number_may_be_left_out_only_where_one_is_nothing_but_one(tmp_path: Path) -> None:
    english = {"n_one": "{{count}} file", "n_other": "{{count}} files"}
    german = {"n_one": "eine Datei", "n_other": "{{count}} Dateien"}
    assert pair(tmp_path, english, german) == []


def test_a_key_written_twice_is_not_lost_in_silence(tmp_path: Path) -> None:
    assert pair(tmp_path, {"a": "One"}, '{"a": "Eins", "a": "Zwei"}') == [
        ("duplicate", "a", "written 2 times in one object, the last wins")
    ]


@pytest.mark.parametrize(
    ("text", "rule"),
    [("GrÃ¶ÃŸe", "damaged"), ("Gr\ufffd\ufffde", "damaged"), ("Grö\u200bße", "invisible"), ("Größe ", "space")]
    + [(text.encode().decode("cp1252"), "damaged") for text in ("Übergröße", "Öl", "łódź", "życie", "дата", "šaty")],
)
def test_damaged_text_and_invisible_characters_are_found(tmp_path: Path, text: str, rule: str) -> None:
    assert [one[0] for one in pair(tmp_path, {"k": "Size"}, {"k": text})] == [rule]


@pytest.mark.parametrize(
    "text", ["Spaß…", "„Spaß“", "AMANHÃ…", "NÃO – já", "Ångström – Å”", "été…", "łódź – ę…", "да – «нет»…"]
)
def test_letters_with_accents_before_punctuation_are_not_damaged(tmp_path: Path, text: str) -> None:
    assert not pair(tmp_path, {"k": "Size"}, {"k": text})


def test_sentences_that_were_not_translated_are_listed_and_names_are_not(tmp_path: Path) -> None:
    same = {"sentence": "Save all files", "name": "GitHub", "code": "{a} {b} OK"}
    assert pair(tmp_path, same, same) == [("same", "sentence", "the same as the source")]


def test_a_regional_catalog_falls_back_to_its_language(tmp_path: Path) -> None:
    write(tmp_path, en_DOT_json={"a": "One", "b": "Two"}, de_DOT_json={"a": "Eins", "b": "Zwei"})
    write(tmp_path, **{"de-AT_DOT_json": {"a": "Ans"}})
    assert found(run_json(*SCRIPT, tmp_path)) == []
    (tmp_path / "de.json").unlink()
    assert found(run_json(*SCRIPT, tmp_path)) == [("missing", "de-AT", "b", "")]


def test_a_file_that_a_language_lacks_altogether_is_named(tmp_path: Path) -> None:
    write(tmp_path, en__cart_DOT_json={"a": "One"}, en__shop_DOT_json={"b": "Two"}, de__shop_DOT_json={"b": "Zwei"})
    (row,) = run_json(*SCRIPT, tmp_path)["findings"]["no-file"]
    assert (row["locale"], row["file"].endswith("*/cart.json")) == ("de", True)


PO = """msgid ""
msgstr ""
"Language: ru\\n"
"Plural-Forms: nplurals=3; plural=0;\\n"

#, fuzzy
msgid "Cat"
msgstr "Kot"

msgid "100% done"
msgstr "100% сделано"

#, python-format
msgid "%(n)d cat"
msgid_plural "%(n)d cats"
msgstr[0] "%(n)d кот"
msgstr[1] "%(n)d кота"

msgctxt "verb"
msgid "Open"
msgstr ""

#, c-format
msgid "%s: "
"%d"
msgstr "%d: "
"%d"

msgid "Cat"
msgstr "x"

#~ msgid "Old"
#~ msgstr ""
"""


def test_po_is_compared_with_its_own_msgids(tmp_path: Path) -> None:
    assert found(run_json(*SCRIPT, write(tmp_path, ru_DOT_po=PO) / "ru.po")) == [
        ("duplicate", "ru", "Cat", "again in line 29: msgfmt refuses the file"),
        ("placeholder", "ru", "%s: %d", "line 24: lacks %1$s and has %1$d"),
        ("plural", "ru", "%(n)d cat", "line 14: 2 forms, the header says nplurals=3"),
        ("untranslated", "ru", "verb|Open", "line 19"),
        ("fuzzy", "ru", "Cat", "line 7"),
    ]


ANDROID = """<resources><string name="a">{a}</string><string name="k" translatable="false">x</string>
<plurals name="p"><item quantity="one">%d day</item>{few}<item quantity="other">%d days</item></plurals></resources>"""


def test_android_strings_are_compared_by_folder(tmp_path: Path) -> None:
    few = '<item quantity="few">%d dni</item>'
    write(tmp_path, res__values__strings_DOT_xml=ANDROID.format(a="Hi %1$s", few=""))
    write(tmp_path, **{"res__values-pl-rPL__strings_DOT_xml": ANDROID.format(a="To's %1$d", few=few)})
    assert found(run_json(*SCRIPT, tmp_path)) == [
        ("placeholder", "pl-PL", "a", "lacks %1$s and has %1$d"),
        ("plural", "pl-PL", "p", "plural lacks many: pl needs one, few, many"),
        ("escape", "pl-PL", "a", "an apostrophe without backslash: write \\'"),
    ]


def test_formats_of_apple_are_read(tmp_path: Path) -> None:
    rule = {"NSStringFormatSpecTypeKey": "NSStringPluralRuleType", "NSStringFormatValueTypeKey": "d"}
    english = plistlib.dumps(
        {"n": {"NSStringLocalizedFormatKey": "%#@v@", "v": rule | {"one": "%d cat", "other": "%d cats"}}}
    )
    polish = plistlib.dumps(
        {"n": {"NSStringLocalizedFormatKey": "%#@v@", "v": rule | {"one": "%d kot", "other": "%d kota"}}}
    )
    write(
        tmp_path,
        **{
            "en.lproj__L_DOT_strings": '/* c */ "k" = "Hello %@";\n',
            "pl.lproj__L_DOT_strings": '"k" = "Cześć %d";\n"k" = "Cześć";'.encode("utf-16"),
            "en.lproj__L_DOT_stringsdict": english,
            "pl.lproj__L_DOT_stringsdict": polish,
        },
    )
    assert found(run_json(*SCRIPT, tmp_path)) == [
        ("duplicate", "pl", "k", "again in line 2"),
        ("placeholder", "pl", "k", "line 2: lacks %1$@"),
        ("plural", "pl", "n.v", "plural lacks few, many: pl needs one, few, many"),
    ]


def test_a_string_catalog_of_xcode_holds_all_languages(tmp_path: Path) -> None:
    def unit(value: str, state: str = "translated") -> dict[str, Any]:
        return {"stringUnit": {"state": state, "value": value}}

    plural = {"variations": {"plural": {"one": unit("%d kot"), "few": unit("%d koty"), "other": unit("%d kota")}}}
    strings = {
        "Hello %@": {"localizations": {"pl": unit("Cześć"), "de": unit("Hallo %@", "needs_review")}},
        "%d cats": {"localizations": {"pl": plural, "de": unit("", "new")}},
        "Bye": {},
        "raw": {"shouldTranslate": False},
    }
    file = (
        write(tmp_path, L_DOT_xcstrings={"sourceLanguage": "en", "strings": strings, "version": "1.0"}) / "L.xcstrings"
    )
    report = run_json(*SCRIPT, file)
    assert {one for one in found(report) if one[0] != "rare-plural"} == {
        ("placeholder", "pl", "Hello %@", "lacks %1$@"),
        ("plural", "pl", "%d cats", "plural lacks many: pl needs one, few, many"),
        ("missing", "pl", "Bye", ""), ("missing", "de", "Bye", ""),
        ("untranslated", "de", "%d cats", ""), ("fuzzy", "de", "Hello %@", ""),
    }  # fmt: skip


def test_xliff_and_arb_are_read(tmp_path: Path) -> None:
    xliff = (
        '<xliff version="1.2"><file source-language="en" target-language="de"><body>'
        '<trans-unit id="a"><source>Hi <x id="NAME"/></source><target>Hallo <x id="NAM"/></target></trans-unit>'
        '<trans-unit id="b"><source>Bye</source><target state="new">Bye</target></trans-unit></body></file></xliff>'
    )
    write(tmp_path, m_DOT_xlf=xliff)
    assert found(run_json(*SCRIPT, tmp_path / "m.xlf")) == [
        ("placeholder", "de", "a", "lacks <x-name> and has <x-nam>"), ("untranslated", "de", "b", "")
    ]  # fmt: skip
    write(tmp_path / "arb", app_en_DOT_arb={"@@locale": "en", "n": "{n, plural, =1{one} other{{n}}}", "@n": {"x": "y"}})
    write(tmp_path / "arb", app_lt_DOT_arb={"@@locale": "lt", "n": "{n, plural, one{#} few{#} other{#}}"})
    assert [one[0] for one in found(run_json(*SCRIPT, tmp_path / "arb"))] == ["rare-plural"]


def test_what_cannot_be_read_is_refused_with_its_place(tmp_path: Path) -> None:
    good = write(tmp_path, en_DOT_json={"a": "b"}) / "en.json"
    for name, content, words in (
        ("de.json", b"", "empty"), ("de.json", b'{"a": "b",\n}', "line 2"), ("de.json", b"\xff{}", "UTF-8"),
        ("de.json", b"[1]", "no object"), ("de.po", b'msgid "a\n', "line 1"),
        ("de.strings", b'"a" = "b"\n"c" = "d";', "line 1"),
        ("de.xlf", b"<a>", "XML"), ("de.xlf", b'<!DOCTYPE a [<!ENTITY b "c">]><a/>', "entities"),
        ("de.stringsdict", b"<plist><dict>", "de.stringsdict"), ("zz.json", b'{"a": "b"}', "LOCALE="),
    ):  # fmt: skip
        path = tmp_path / name
        path.write_bytes(content)
        assert_refused(run_script(*SCRIPT, good, path), name, words)
    assert_refused(run_script(*SCRIPT, good), "only one")
    assert run_script(*SCRIPT, good, f"de={tmp_path / 'zz.json'}").returncode == 0


def test_an_android_array_is_no_plural_and_must_keep_its_length(tmp_path: Path) -> None:
    array = '<resources><string-array name="r"><item>First one</item><item>Second one</item></string-array></resources>'
    german = array.replace("First one", "Erstes").replace("Second one", "Zweites")
    write(tmp_path, **{"values__strings_DOT_xml": array, "values-de__strings_DOT_xml": german})
    assert found(run_json(*SCRIPT, tmp_path)) == []
    write(tmp_path, **{"values-de__strings_DOT_xml": german.replace("<item>Zweites</item>", "")})
    assert found(run_json(*SCRIPT, tmp_path)) == [("items", "de", "r[]", "an array of 1 items, the source has 2")]


def test_a_key_with_a_dot_that_an_object_spells_too_is_a_duplicate(tmp_path: Path) -> None:
    both = {"a.b": "One", "a": {"b": "Two"}}
    report = pair(tmp_path, both, {"a.b": "Eins"})
    assert report == [("duplicate", "a.b", "written as one key with a dot and as an object, only one is compared")]


def test_segments_of_xliff_2_are_told_apart_by_their_unit(tmp_path: Path) -> None:
    unit = '<unit id="{}"><segment id="s1"><source>{}</source>{}</segment></unit>'
    xliff = '<xliff version="2.0" srcLang="en" trgLang="de"><file id="f">{}</file></xliff>'
    units = unit.format("u1", "One", "") + unit.format("u2", "Two", "<target>Zwei</target>")
    write(tmp_path, m_DOT_xlf=xliff.format(units))
    report = run_json(*SCRIPT, tmp_path / "m.xlf")
    assert report["locales"][0]["messages"] == 2
    assert found(report) == [("untranslated", "de", "u1/s1", "")]


def test_files_inside_one_xliff_are_told_apart_and_two_languages_are_refused(tmp_path: Path) -> None:
    body = '<body><trans-unit id="a"><source>Hi</source></trans-unit></body>'
    file = f'<file original="{{}}" source-language="en" target-language="{{}}">{body}</file>'
    write(tmp_path, m_DOT_xlf=f'<xliff version="1.2">{file.format("x", "de")}{file.format("y", "de")}</xliff>')
    assert [one[:3] for one in found(run_json(*SCRIPT, tmp_path / "m.xlf"))] == [
        ("untranslated", "de", "x: a"),
        ("untranslated", "de", "y: a"),
    ]
    write(tmp_path, m_DOT_xlf=f'<xliff version="1.2">{file.format("x", "de")}{file.format("y", "fr")}</xliff>')
    assert_refused(run_script(*SCRIPT, tmp_path / "m.xlf"), "several languages (de, fr)")


def test_a_po_file_that_breaks_off_says_so_and_odd_line_ends_stay_text(tmp_path: Path) -> None:
    head = 'msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "One"\nmsgstr "E\u2028ins"\n\n'
    write(tmp_path, de_DOT_po=head + 'msgid "Two"\n')
    report = [one for one in found(run_json(*SCRIPT, tmp_path / "de.po")) if one[2] == "Two"]
    assert ("syntax", "de", "Two", "no msgstr in line 7 and after: cut off?") in report


def test_the_number_of_i18next_is_no_icu_message(tmp_path: Path) -> None:
    source = {"f_one": "{{count, number}} file", "f_other": "{{count, number}} files", "d": "until {{ day, date }}"}
    other = {"f_one": "{{count}} Datei", "f_other": "{{count, number}} Dateien", "d": "bis {{day, date}}"}
    assert pair(tmp_path, source, other) == []
    renamed = pair(tmp_path, source, other | {"f_other": "{{anzahl, number}} Dateien"})
    assert [rule for rule, *_ in renamed] == ["placeholder"]


def test_an_i18next_plural_without_other_is_one_message_that_lacks_a_form(tmp_path: Path) -> None:
    source = {"f_one": "{{count}} file", "f_other": "{{count}} files"}
    polish = {"f_one": "{{count}} plik", "f_few": "{{count}} pliki", "f_many": "{{count}} plików"}
    assert [one[:2] for one in pair(tmp_path / "a", source, polish, "pl")] == [("rare-plural", "f")]
    german = pair(tmp_path / "b", source, {"f_one": "{{count}} Datei"})
    assert german == [("plural", "f", "plural lacks other: de needs one, other")]


@pytest.mark.parametrize(
    ("rule", "bad"),
    [
        ("n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2", 1),
        ("(n % 10 == 0 || n % 100 >= 11 && n % 100 <= 19) ? 0 : ((n % 10 == 1 && n % 100 != 11) ? 1 : 2)", 2),
    ],
)
def test_forms_of_latvian_are_counted_as_the_header_counts_them(tmp_path: Path, rule: str, bad: int) -> None:
    header = f'msgid ""\nmsgstr ""\n"Language: lv\\n"\n"Plural-Forms: nplurals=3; plural=({rule});\\n"\n\n'
    message = '#, c-format\nmsgid "%d cat"\nmsgid_plural "%d cats"\n'

    def without(form: int) -> list[str]:
        texts = "".join(f'msgstr[{one}] "{"nav" if one == form else "%d"}"\n' for one in range(3))
        write(tmp_path, lv_DOT_po=header + message + texts)
        return [text for rule, *_, text in found(run_json(*SCRIPT, tmp_path)) if rule == "placeholder"]

    assert without({1: 2, 2: 0}[bad]) == []
    assert without(bad)


def test_a_translation_of_spaces_is_none(tmp_path: Path) -> None:
    assert pair(tmp_path, {"a": "Save", "b": " "}, {"a": "  ", "b": "  "}) == [("untranslated", "a", "")]


def test_the_words_of_a_select_are_not_translated(tmp_path: Path) -> None:
    source = {"a": "{g, select, male {He} other {They}}"}
    assert pair(tmp_path, source, {"a": "{g, select, mann {Er} other {Sie}}"}) == [
        ("syntax", "a", "select of g lacks male and has mann of its own")
    ]
    assert pair(tmp_path, source, {"a": "{g, select, male {Er} other {Sie}}"}) == []
    assert pair(tmp_path, source, {"a": "{g, select, other {Sie}}"}) == [
        ("look", "a", "select of g lacks male and has nothing of its own")
    ]


def test_a_link_to_another_host_is_named(tmp_path: Path) -> None:
    source = {"a": '<a href="https://x.example/en">Go</a>'}
    assert pair(tmp_path, source, {"a": '<a href="https://x.example/de">Los</a>'}) == []
    assert pair(tmp_path, source, {"a": '<a href="https://x.example.evil.example">Los</a>'}) == [
        ("look", "a", "links to x.example.evil.example, unlike the source")
    ]


def test_placeholders_of_browser_extensions_are_compared_and_notes_for_translators_are_not(tmp_path: Path) -> None:
    source = {
        "hi": {"message": "Hello $NAME$", "description": "greets {x}", "placeholders": {"name": {"content": "$1"}}}
    }
    other = {"hi": {"message": "Hallo $NAM$"}}
    assert pair(tmp_path, source, other) == [("placeholder", "hi", "lacks {$NAME$} and has {$NAM$}")]
    both = [{"a": {"defaultMessage": text, "description": note}} for text, note in (("A {x}", "{y}"), ("B {x}", ""))]
    assert pair(tmp_path, both[0], both[1]) == []


def test_a_file_of_a_language_that_is_not_known_is_named_and_not_left_out_in_silence(tmp_path: Path) -> None:
    write(tmp_path, en_DOT_json={"a": "One"}, de_DOT_json={"a": "Eins"}, oc_DOT_json={}, package_DOT_json={})
    write(tmp_path, en__shop_DOT_json={"a": "One"}, de__shop_DOT_json={"a": "Eins"}, ckb__shop_DOT_json={})
    rows = run_json(*SCRIPT, tmp_path)["findings"]["look"]
    assert [row["file"] for row in rows] == [str(tmp_path / "ckb" / "shop.json"), str(tmp_path / "oc.json")]


def test_a_catalog_given_with_its_language_is_compared_wherever_it_lies(tmp_path: Path) -> None:
    write(tmp_path, en_DOT_json={"a": "Hello {name}", "b": "One"}, english_DOT_json={"a": "Hello {name}", "b": "One"})
    write(tmp_path, strange_DOT_json={"a": "Witaj", "b": "Jeden"}, app__en__shop_DOT_json={"c": "Buy"})
    strange = f"pl={tmp_path / 'strange.json'}"
    wanted = [("placeholder", "pl", "a", "lacks {name}")]
    assert found(run_json(*SCRIPT, tmp_path / "en.json", strange)) == wanted
    assert found(run_json(*SCRIPT, f"en={tmp_path / 'english.json'}", strange)) == wanted
    report = run_json(*SCRIPT, tmp_path, strange)
    assert found(report) == [*wanted, ("no-file", "pl", "", f"1 messages of {tmp_path / 'app' / 'en' / 'shop.json'}")]
    write(tmp_path / "x", de__a_DOT_json={"a": "Hallo", "b": "Eins"}, fr_DOT_json={"q": "Autre"})
    english = f"en={tmp_path / 'english.json'}"
    rows = found(run_json(*SCRIPT, english, tmp_path / "x" / "de", tmp_path / "x" / "fr.json"))
    assert ("placeholder", "de", "a", "lacks {name}") in rows
    assert ("look", "fr", "", "no source catalog of this name to compare with: give the file as LOCALE=FILE") in rows


def test_files_are_found_whatever_the_case_of_their_suffix(tmp_path: Path) -> None:
    write(tmp_path, en_DOT_json={"a": "One"}, de_DOT_JSON={}, PACKAGE_DOT_JSON={})
    assert found(run_json(*SCRIPT, tmp_path)) == [("missing", "de", "a", "")]


def test_without_a_catalog_of_the_source_language_nothing_is_called_right(tmp_path: Path) -> None:
    write(tmp_path, en_US_DOT_json={"a": "One"}, de_DE_DOT_json={})
    assert_refused(run_script(*SCRIPT, tmp_path), "no catalog of the source language en", "--source")
    assert found(run_json(*SCRIPT, tmp_path, "--source", "en_US")) == [("missing", "de_DE", "a", "")]


def test_a_header_with_fewer_forms_than_the_language_has_is_worth_a_look(tmp_path: Path) -> None:
    content = PO.replace("nplurals=3", "nplurals=2").replace("Language: ru", "Language: pl")
    assert ("look", "pl", "", "the header says nplurals=2, whole numbers have 3 forms: one, few, many") in found(
        run_json(*SCRIPT, write(tmp_path, pl_DOT_po=content) / "pl.po")
    )


def test_a_branch_that_lacks_what_each_branch_of_the_source_has_is_worth_a_look(tmp_path: Path) -> None:
    source = {"a": "{n, plural, one {{who} has one} other {{who} has #}}", "b": "{g, select, f {her {x}} other {{x}}}"}
    good = {"a": "{n, plural, one {{who} hat eins} other {{who} hat {n}}}", "b": "{g, select, f {ihr {x}} other {{x}}}"}
    assert pair(tmp_path, source, good) == []
    bad = {"a": "{n, plural, one {hat eins} other {{who} hat viele}}", "b": "{g, select, f {ihr} other {{x}}}"}
    assert pair(tmp_path, source, bad) == [
        ("look", "a", "`one` of n lacks {who}"),
        ("look", "a", "`other` of n lacks {n}"),
        ("look", "b", "`f` of g lacks {x}"),
    ]


def test_one_without_its_number_is_an_error_in_a_branch_too_where_it_is_not_only_1(tmp_path: Path) -> None:
    source, other = (
        {"n": "{n, plural, one {one file} other {# files}}"},
        "{n, plural, one {%s} few {#} many {#} other {#}}",
    )
    wrong = [("placeholder", "n", "`one` of n lacks {n}; in ru it is not only 1")]
    assert pair(tmp_path, source, {"n": other % "fajl"}, "ru") == wrong
    assert pair(tmp_path, source, {"n": other % "# fajl"}, "ru") == []


@pytest.mark.parametrize(
    ("source", "other", "wrong"),
    [
        ("100%% of %1$s", "100 % de %1$s", True),
        ("100%% of %1$s", "100 % du %1$s", True),
        ("100%% of %1$s", "100 %% de %1$s", False),
        ("50%% off", "50 % de remise", True),
        ("50% off", "50 % de remise", False),
        ("%d items", "%d articles, 5 %", True),
        ("50% of %s", "50 % de %s", False),
        ("Hi %2$s %1$d", "%1$d %2$s", False),
    ],
)
def test_a_lone_per_cent_sign_breaks_a_text_that_is_formatted(
    tmp_path: Path, source: str, other: str, wrong: bool
) -> None:
    for folder, text in (("values", source), ("values-fr", other)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "strings.xml").write_text(f'<resources><string name="a">{text}</string></resources>')
    for folder, text in (("en.lproj", source), ("fr.lproj", other)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "Localizable.strings").write_text(f'"a" = "{text}";')
    rows = [(rule, text.rpartition(": ")[2]) for rule, _, _, text in found(run_json(*SCRIPT, tmp_path))]
    assert rows == [("placeholder", "a lone % in a text that is formatted, write %%")] * 2 * wrong


@pytest.mark.parametrize(
    ("source", "other", "text"),
    [
        ("Hi {{name}}", "Hallo {name}", "one brace or two, unlike the source: name"),
        ("Hi {name}", "Hallo {{name}}", "one brace or two, unlike the source: name"),
        ("Hi {{name}} {{- x}}", "{{ name }} {{-x}}", ""),
        ("{g, select, other {{name}}}", "{g, select, other {Hallo {name}}}", ""),
        ("The :attribute has :max signs", "Das Feld hat :max Zeichen", "lacks :attribute"),
        ("Hi :name", ":Name, hallo", ""),
        ("a :smile: at 10:30 http://x:y/z note:see", "b", ""),
        ("Hi %name%", "Hallo %nom%", "lacks {%name%} and has {%nom%}"),
        ("%d%% of %s, %ld%ld", "%d%% von %s, %ld%ld", ""),
    ],
)
def test_braces_and_placeholders_of_laravel_and_symfony_are_compared(
    tmp_path: Path, source: str, other: str, text: str
) -> None:
    rows = [row[2] for row in pair(tmp_path, {"k": source}, {"k": other}) if row[0] == "placeholder"]
    assert rows == ([text] if text else [])


PO_OF_A = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "a"\nmsgstr "{a}"\n\n'
POT = PO_OF_A.format(a="") + 'msgid "b"\nmsgstr ""\n'


@pytest.mark.parametrize("name", ["po__de_DOT_po", "po__de__LC_MESSAGES__app_DOT_po"])
def test_a_template_of_gettext_is_the_source_of_the_catalogs_beside_and_below_it(tmp_path: Path, name: str) -> None:
    write(tmp_path, po__app_DOT_pot=POT, **{name: PO_OF_A.format(a="x")})
    report = run_json(*SCRIPT, tmp_path)
    assert found(report) == [("missing", "de", "b", "")]
    assert report["locales"][0]["missing"] == 1


def test_a_template_beside_a_catalog_of_the_source_language_is_not_counted_again(tmp_path: Path) -> None:
    write(tmp_path, po__app_DOT_pot=POT, po__en_DOT_po=PO_OF_A.format(a="a"), po__de_DOT_po=PO_OF_A.format(a="x"))
    assert found(run_json(*SCRIPT, tmp_path)) == []


@pytest.mark.parametrize("source", ["en", "en-US"])
def test_an_xliff_without_translations_and_language_is_the_source(tmp_path: Path, source: str) -> None:
    unit = '<trans-unit id="{}"><source>{}</source>{}</trans-unit>'
    file = '<xliff version="1.2"><file source-language="{}" {} original="x"><body>{}</body></file></xliff>'
    german = unit.format("a", 'Hi <x id="N"/>', '<target>Hallo <x id="M"/></target>')
    write(
        tmp_path,
        messages_DOT_xlf=file.format(source, "", unit.format("a", 'Hi <x id="N"/>', "") + unit.format("b", "Bye", "")),
        **{"messages.de_DOT_xlf": file.format(source, 'target-language="de"', german)},
    )
    wanted = [("placeholder", "de", "a", "lacks <x-n> and has <x-m>"), ("missing", "de", "b", "")]
    assert found(run_json(*SCRIPT, tmp_path)) == wanted
    assert found(run_json(*SCRIPT, tmp_path, f"en={tmp_path / 'messages.xlf'}")) == wanted


def test_a_template_alone_is_nothing_to_compare(tmp_path: Path) -> None:
    assert_refused(run_script(*SCRIPT, write(tmp_path, app_DOT_pot=POT)), "name these too")
