"""Tasks whose environment is an Apptainer definition file."""

import pytest

pytestmark = pytest.mark.docker

DEFINITION = r"""Bootstrap: docker
From: debian:bookworm-slim
Stage: build

%post
echo from-build > /made

Bootstrap: docker
From: debian:bookworm-slim
Stage: final

%arguments
    WORD=sesame

%files from build
    /made /opt/in/made

%files
    words.txt
    data /opt
    data /srv/other
    *.cfg /etc/app/

%post
mkdir -p /app
cd /opt
if [ -d in ]; then
    cat > said <<'END'
  "quoted" $HOME `x` \n
END
fi
pwd > where

%environment
    export GREETING="hello world" WORD='{{ WORD }} $5'
    export PATH=/opt/tools:$PATH

%labels
    Author A. Writer

%runscript
    echo "running $@"

%startscript
    echo started > /started
    sleep infinity

%help
    Nothing to see.
"""

CHECK = r"""#!/bin/bash
cat /opt/in/made /words.txt /opt/data/one /srv/other/one /etc/app/a.cfg
cat /opt/said /opt/where
echo "$GREETING|$WORD|$PATH"
cat /started
/.singularity.d/runscript a b
ls -d /.pytest-harbor-files 2>/dev/null
echo 1 > /logs/verifier/reward.txt
"""

EXPECTED = [
    "from-build",
    "words",
    "one",
    "one",
    "cfg",
    '  "quoted" $HOME `x` \\n',
    "/opt",
    "hello world|sesame $5|/opt/tools:/usr/local/sbin:",
    "started",
    "running a b",
]


@pytest.fixture
def make_apptainer_task(make_task):
    """Write a task without a Dockerfile."""

    def make(definition: str = DEFINITION, **changed):
        folder = make_task(remove=("environment/Dockerfile",), **changed)
        make_task.write(folder, "environment/Apptainer.def", definition)
        for name, text in {"words.txt": "words", "data/one": "one", "a.cfg": "cfg"}.items():
            make_task.write(folder, f"environment/{name}", f"{text}\n")
        return folder

    return make


@pytest.mark.parametrize("buildkit", ["1", "0"], ids=["buildkit", "classic"])
def test_every_section_seen_from_inside(make_apptainer_task, run_tasks, monkeypatch, buildkit):
    monkeypatch.setenv("DOCKER_BUILDKIT", buildkit)
    # Another name for the words, so that neither builder finds the other's image.
    definition = DEFINITION.replace("Nothing to see", f"Built {buildkit}")
    make_apptainer_task(definition, test=CHECK)
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1)
    seen = (ran.folder() / "verifier" / "test-stdout.txt").read_text().splitlines()
    seen[7] = seen[7][: len(EXPECTED[7])]
    assert seen == EXPECTED


def test_a_failing_build_names_the_definition_file(make_apptainer_task, run_tasks):
    make_apptainer_task(
        "Bootstrap: docker\nFrom: debian:bookworm-slim\n%post\necho about to fail\nfalse\n"
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(errors=1)
    ran.run.stdout.fnmatch_lines(["*environment/Apptainer.def*build failed*"])
    ran.run.stdout.fnmatch_lines(["*about to fail*"])


def test_what_only_apptainer_can_build_is_skipped_with_the_line(make_apptainer_task, run_tasks):
    make_apptainer_task("Bootstrap: library\nFrom: alpine\n")
    ran = run_tasks("tasks", "-rs")
    ran.run.assert_outcomes(skipped=1)
    ran.run.stdout.fnmatch_lines(["*Apptainer.def:1: Bootstrap: library*docker*"])


@pytest.mark.long
def test_a_prebuilt_image_and_a_dockerfile_win(make_apptainer_task, make_task, run_tasks):
    broken = "Bootstrap: library\nFrom: alpine\n"
    folder = make_apptainer_task(broken)
    make_task.write(folder, "environment/Dockerfile", "FROM debian:bookworm-slim\nWORKDIR /app\n")
    run_tasks("tasks").run.assert_outcomes(passed=1)
    (folder / "environment/Dockerfile").unlink()
    image = "--harbor-image=debian:bookworm-slim"
    make_task.write(folder, "solution/solve.sh", "#!/bin/bash\nmkdir /app; echo ok >/app/out.txt\n")
    for more in ((), ("--harbor-rebuild", "--harbor-ignore-dockerfile")):
        run_tasks("tasks", image, *more).run.assert_outcomes(passed=1)


def test_a_separate_verifier_that_copies_the_environment(make_apptainer_task, run_tasks):
    make_apptainer_task(
        toml="=artifacts = []\n[verifier]\nenvironment_mode = 'separate'\n",
        test="#!/bin/bash\n[ -e /opt/in/made ]; echo $((1 - $?)) > /logs/verifier/reward.txt\n",
    )
    run_tasks("tasks").run.assert_outcomes(passed=1)
