"""Counts words: a handler that says which code it is, and what a second call would do."""

from flo import ActionWorker

worker = ActionWorker(build_id="1.2-7f3a")  # or FLO_BUILD_ID in the environment


@worker.action("count-words", effect="none")
def count_words(text: str) -> int:
    return len(text.split())


if __name__ == "__main__":
    worker.run()
