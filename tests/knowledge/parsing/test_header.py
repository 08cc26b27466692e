"""When a text was made and from when it holds: what it states, what is assumed, what is not known."""

from __future__ import annotations

import pytest

from devassist.knowledge.parsing.header import Header, iso_day, issuer_of, read_header, validity

ADOPTED = "2018年5月1日 云泽省第五届人民代表大会常务委员会第二次会议通过"
AMENDED = "2022年9月3日 云泽省第六届人民代表大会常务委员会第九次会议《关于修改〈云泽省节水条例〉的决定》修正"
REVISED = "2022年9月3日 云泽省第六届人民代表大会常务委员会第九次会议修订"


@pytest.mark.parametrize(
    ("lines", "closing", "expected"),
    [
        ([ADOPTED], "本条例自2018年10月1日起施行。", ("2018-05-01", "2018-10-01", "stated")),
        ([ADOPTED, AMENDED], "本条例自2018年10月1日起施行。", ("2022-09-03", "2022-09-03", "assumed_promulgation")),
        ([ADOPTED, REVISED], "本条例自2023年1月1日起施行。", ("2022-09-03", "2023-01-01", "stated")),
        ([ADOPTED], "本条例自公布之日起施行。", ("2018-05-01", "2018-05-01", "assumed_promulgation")),
        (
            ["2018年5月8日 云泽省人民政府令第12号公布"],
            "本办法自公布之日起施行。",
            ("2018-05-08", "2018-05-08", "stated"),
        ),
        ([ADOPTED, AMENDED], "本条例自公布之日起施行。", ("2022-09-03", "2022-09-03", "assumed_promulgation")),
        ([ADOPTED], "本条例自公布之日起三十日后施行。", ("2018-05-01", None, "unknown")),
        ([ADOPTED], "由省水务局负责解释。", ("2018-05-01", None, "unknown")),
        ([], "本规定自二〇一九年三月十五日起施行。", (None, "2019-03-15", "stated")),
        ([], "没有日期。", (None, None, "unknown")),
    ],
)
def test_the_day_of_effect_and_its_basis(
    lines: list[str], closing: str, expected: tuple[str | None, str | None, str]
) -> None:
    """Adoption is not effect; a printed day that is older than the last amendment is that of an earlier version, so
    the promulgation is assumed and said to be; a full revision prints its own day."""
    held = validity(read_header(lines), ["第一条的文字。", closing])
    assert (held.promulgated_on, held.effective_date, held.basis) == expected


def test_a_name_that_knows_a_later_day_wins_and_is_said() -> None:
    """The header of a file may lack its own amendment, which only the file's name tells."""
    held = validity(read_header([ADOPTED]), ["本条例自2018年10月1日起施行。"], named_on="2021-11-02")
    assert (held.promulgated_on, held.effective_date, held.basis) == (
        "2021-11-02",
        "2021-11-02",
        "assumed_promulgation",
    )
    assert any("2021-11-02" in warning for warning in held.warnings)
    assert any("2018-10-01" in warning for warning in held.warnings)


def test_history_has_days_actors_and_instruments() -> None:
    """Each entry says when, by whom, what was done and by which decision; titles broken over lines are put together."""
    broken = "2020年4月2日 云泽省人民政府《关于修改〈云泽省节水条例〉第三条"
    header = read_header([ADOPTED, broken, "第四条的决定》修改", f"（{AMENDED}）", "水规〔2022〕7号"])
    assert [(e.date, e.action, e.by, e.instrument) for e in header.history] == [
        ("2018-05-01", "adopted", "云泽省第五届人民代表大会常务委员会第二次会议", None),
        ("2020-04-02", "amended", "云泽省人民政府", "《关于修改〈云泽省节水条例〉第三条第四条的决定》"),
        (
            "2022-09-03",
            "amended",
            "云泽省第六届人民代表大会常务委员会第九次会议",
            "《关于修改〈云泽省节水条例〉的决定》",
        ),
    ]
    assert header.rest == ("水规〔2022〕7号",)
    assert issuer_of(header.history) == "云泽省人民代表大会常务委员会"


def test_several_entries_in_one_line() -> None:
    """The usual bracket below a title holds the whole history."""
    line = "（2018年5月1日省人民政府第三次常务会议通过　根据2020年4月2日《省政府关于修改部分规章的决定》第一次修正）"
    header = read_header([line])
    assert [(e.date, e.action, e.by) for e in header.history] == [
        ("2018-05-01", "adopted", "省人民政府第三次常务会议"),
        ("2020-04-02", "amended", "省政府"),
    ]


def test_an_amendment_that_is_passed_is_an_amendment() -> None:
    """通过 of a 修正案 changes the text; 公布 and 施行 of the first version do not."""
    header = read_header(
        ["1990年1月2日 大会通过", "1990年1月3日 公布", "1991年1月1日 施行", "1999年3月4日 大会通过的《宪章修正案》"]
    )
    assert [entry.action for entry in header.history] == ["adopted", "adopted", "amended"]
    assert header.effective == "1991-01-01"
    assert validity(header, []).basis == "assumed_promulgation"


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("自2024年7月1日起", "2024-07-01"),
        ("二〇二四年十二月三十一日", "2024-12-31"),
        ("effective 1 July 2024", "2024-07-01"),
        ("on July 1st, 2024", "2024-07-01"),
        ("2024-07-01", "2024-07-01"),
        ("2023年2月30日", None),
        ("某日", None),
    ],
)
def test_days(text: str, day: str | None) -> None:
    """Days are read in both languages and in Chinese numerals; one that never was is none."""
    assert iso_day(text) == day


def test_an_english_text_states_its_day() -> None:
    """``takes effect on`` is read where the language is English."""
    held = validity(Header((), None, None, ()), ["These rules take effect on 3 March 2025."], lang="en")
    assert (held.effective_date, held.basis) == ("2025-03-03", "stated")
