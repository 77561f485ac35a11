import pytest

from tensoraudit.cli.app import run


@pytest.fixture
def cli(capsys):
    """Run the command line in this process: exit code, standard output, standard error."""

    def call(*arguments):
        code = run([str(each) for each in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
