"""What a probe may answer, and the judge that names all that answer otherwise."""

import pytest

# "holds?" is a truth that may stay undecided, "fails?" a falsehood that may.
ALLOWED = {"holds": {True}, "holds?": {True, None}, "fails": {False}, "fails?": {False, None}, "undecided": {None}}


@pytest.fixture
def offenders():
    def judge(table):
        found = []
        for allowed, statement in table:
            try:
                verdict = statement.decide()
                if verdict.holds not in ALLOWED[allowed]:
                    found.append(f"{statement} should be {allowed}, is {verdict.verdict}: {verdict.evidence}")
            except Exception as error:
                found.append(f"{statement} should be {allowed}, but {type(error).__name__}: {error}")
        return found

    return judge
