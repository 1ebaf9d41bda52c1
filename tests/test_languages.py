"""The language of a library is told from its texts."""

import pytest

from orchestr8_sqlite.text.languages import language_of

TEXTS = {
    "English": "Retry a failed call with backoff, and tell the user when it is not going to work. How to choose limits "
    "for the queue that your service reads from.",
    "German": "Wie man eine langsame Abfrage findet und mit einem Index beschleunigt. Wenn der Server nicht antwortet, "
    "ist die Ursache meist eine Sperre.",
    "French": "Quand une requête est lente, regardez le plan avec les statistiques. Ne changez pas la configuration du "
    "serveur pour une seule requête.",
    "Spanish": "Cuando una consulta es lenta, mira el plan con las estadísticas. No cambies la configuración del "
    "servidor por una sola consulta que se repite.",
    "Russian": "Как найти медленный запрос и что делать, если сервер не отвечает. Для этого нужен план запроса, и не "
    "на каждый запрос с индексом.",
    "Japanese": "クエリが遅いときは実行計画を見てください。インデックスがあるかどうかを確認します。",
    "Chinese": "查询很慢的时候，先看执行计划，再看索引。不要为了一个查询修改服务器的配置。",
    "Korean": "쿼리가 느릴 때는 실행 계획을 먼저 확인하고 인덱스가 있는지 봅니다.",
}


@pytest.mark.parametrize("language", TEXTS)
def test_language_of_a_text_is_told(language: str) -> None:
    assert language_of(TEXTS[language]) == language


@pytest.mark.parametrize("text", ["", "retry backoff jitter", "x = 1; y = 2", "the der le"])
def test_language_that_cannot_be_told_is_none(text: str) -> None:
    assert language_of(text) is None


def test_few_foreign_words_do_not_make_another_language() -> None:
    assert language_of(TEXTS["English"] + " Das ist nicht alles. クエリ") == "English"
