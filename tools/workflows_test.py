"""The workflows may do what they need and no more, and a release is signed before it can be published."""

import re
import unittest
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent

# Rights that a job may have beyond reading the repository, and the jobs that have them.
RIGHTS = {
    "release.yml": {"draft": {"contents": "write", "id-token": "write", "attestations": "write"}},
    "publish.yml": {
        "pypi": {"id-token": "write"},
        "npm": {"id-token": "write"},
        "image": {"packages": "write", "id-token": "write"},
    },
}

# Minutes that `make fuzz-long` needs on a new machine before the first target: cargo-fuzz, and two builds.
FUZZ_BUILD_MIN = 60


def workflows():
    for file in sorted((ROOT / ".github/workflows").glob("*.yml")):
        # YAML 1.1 takes the key "on" for true.
        yield file.name, yaml.safe_load(file.read_text()), file.read_text()


def steps_of(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def workflow_of(name):
    return next(workflow for file, workflow, _ in workflows() if file == name)


def texts(job):
    return [step.get("run", "") + step.get("uses", "") for step in job["steps"]]


def commands_of(job):
    """The commands of a job, once for each entry of its matrix."""
    matrix = job.get("strategy", {}).get("matrix", {})
    entries = matrix.get("include") or [{key: value} for key, values in matrix.items() for value in values] or [{}]
    for entry in entries:
        runs = "\n".join(step.get("run", "") for step in job["steps"])
        yield re.sub(r"\$\{\{ matrix\.(\w+) \}\}", lambda found, entry=entry: entry[found[1]], runs)


class WorkflowsTest(unittest.TestCase):
    def test_actions_of_others_are_named_by_their_commit(self):
        for name, _, text in workflows():
            for used in re.findall(r"uses: (.*)", text):
                self.assertRegex(used, r"^[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", name)

    def test_jobs_have_no_rights_but_those_that_are_listed(self):
        for name, workflow, _ in workflows():
            self.assertEqual(workflow["permissions"], {"contents": "read"}, name)
            given = {job: each["permissions"] for job, each in workflow["jobs"].items() if "permissions" in each}
            self.assertEqual(given, RIGHTS.get(name, {}), name)

    def test_nothing_of_an_event_is_run_as_a_command(self):
        for name, workflow, text in workflows():
            self.assertNotIn("pull_request_target", text, name)
            for step in steps_of(workflow):
                # The shell gets such texts in variables, which it doesn't execute.
                self.assertNotIn("${{ github.", step.get("run", ""), name)

    def test_checkouts_leave_no_token_to_the_steps_that_follow(self):
        for name, workflow, _ in workflows():
            for step in steps_of(workflow):
                if step.get("uses", "").startswith("actions/checkout@"):
                    self.assertIs(step["with"]["persist-credentials"], False, name)

    def test_every_job_ends_in_time(self):
        for name, workflow, _ in workflows():
            for job, each in workflow["jobs"].items():
                self.assertIn("timeout-minutes", each, f"{name}: {job}")

    def test_a_release_fuzzes_every_reader_within_the_time_of_its_job(self):
        every = re.findall(r'^        name: "(\w+)",$', (ROOT / "fuzz/src/targets.rs").read_text(), re.M)
        seconds = int(re.search(r"^fuzz-long: SECONDS := (\d+)$", (ROOT / "Makefile").read_text(), re.M)[1])
        fuzzed = []
        for name, job in workflow_of("release.yml")["jobs"].items():
            for commands in commands_of(job):
                runs = re.findall(r'^make fuzz-long(?: TARGETS="(.+)")?$', commands, re.M)
                targets = [target for words in runs for target in words.split() or every]
                fuzzed += targets
                if targets:
                    takes_min = FUZZ_BUILD_MIN + len(targets) * seconds / 60
                    self.assertLessEqual(takes_min, job["timeout-minutes"], f"{name}: {targets}")
        self.assertEqual(sorted(fuzzed), sorted(every))

    def test_commands_of_the_makefile_exist(self):
        makefile = (ROOT / "Makefile").read_text()
        for name, workflow, _ in workflows():
            for step in steps_of(workflow):
                for target in re.findall(r"^make ([a-z-]+)", step.get("run", ""), re.M):
                    self.assertRegex(makefile, rf"(?m)^{target}:", f"{name}: make {target}")

    def test_a_release_is_tested_signed_and_drafted_but_not_published(self):
        jobs = workflow_of("release.yml")["jobs"]
        draft = jobs["draft"]
        self.assertEqual(set(draft["needs"]), {"test", "fuzz", "files", "image"})
        order = [
            next(at for at, text in enumerate(texts(draft)) if part in text)
            for part in ("cosign sign-blob", "actions/attest-build-provenance", "gh release create")
        ]
        self.assertEqual(order, sorted(order))
        self.assertIn("--draft", texts(draft)[order[-1]])
        files = "\n".join(texts(jobs["files"]))
        for part in ("version.py --tag", "release_notes.py", "make release-files", "make dist-check",
                     "make release-check REQUIRE=1"):
            self.assertIn(part, files)
        for part in ("--sbom=true", "--provenance=mode=max"):
            self.assertIn(part, "\n".join(texts(jobs["image"])))
        # The image is started before it is kept, which publish.yml then hands on as it is.
        order = [
            next(at for at, text in enumerate(texts(jobs["image"])) if part in text)
            for part in ("docker buildx build", "deploy/start-image.sh", "actions/upload-artifact")
        ]
        self.assertEqual(order, sorted(order))
        [archive] = re.findall(r"type=oci,dest=([^\"]+)", "\n".join(texts(jobs["image"])))
        self.assertIn(f'deploy/start-image.sh "{archive}" ', texts(jobs["image"])[order[1]])
        for word in ("npm publish", "uv publish", "docker push", "skopeo", "--push"):
            self.assertNotIn(word, "\n".join(text for job in jobs.values() for text in texts(job)))

    def test_targets_that_see_a_demo_in_chromium_install_it(self):
        makefile = (ROOT / "Makefile").read_text()
        for target in ("wheel", "release-check"):
            self.assertRegex(makefile, rf"(?m)^{target}:.* setup-chromium\b")
        # The tool that looks for Chromium knows what the set-up is content with.
        setup = (ROOT / "tools/setup.sh").read_text()
        searched = re.search(r"find_browser\(\) \{.*?for candidate in (.*?); do", setup, re.S)
        tool = (ROOT / "tools/installed.py").read_text()
        for name in re.findall(r"(?<!\S)[a-z][a-z-]+", searched[1]):
            self.assertIn(f'"{name}"', tool)

    def test_main_makes_and_checks_what_a_release_has(self):
        workflow, release = workflow_of("ci.yml"), workflow_of("release.yml")["jobs"]["files"]
        self.assertIn("main", workflow[True]["push"]["branches"])
        [job] = [each for each in workflow["jobs"].values() if "make release-files" in texts(each)]
        self.assertEqual(job["if"], "github.ref == 'refs/heads/main'")
        commands = [command for command in texts(job) if command.startswith("make ")]
        expected = ["make release-files", "make release-check REQUIRE=1", "make site"]
        self.assertEqual(commands, expected)
        self.assertLess(set(commands), set(texts(release)))
        # Another compiler's libraries would need other symbols.
        self.assertEqual(job["container"], release["container"])
        self.assertIn(f"ARG BUILDER={job['container']['image']}\n", (ROOT / "deploy/Dockerfile").read_text())
        # Both builds read the symbols of what they made.
        for tool in ("wheel_check.py", "dist.py"):
            self.assertIn("check_symbols(", (ROOT / "tools" / tool).read_text())

    def test_published_are_the_signed_files_of_the_draft(self):
        workflow = workflow_of("publish.yml")
        self.assertEqual(workflow[True], {"release": {"types": ["published"]}})
        fetch = "\n".join(texts(workflow["jobs"]["fetch"]))
        self.assertIn("cosign verify-blob", fetch)
        self.assertIn("sha256sum --check", fetch)
        for name, job in workflow["jobs"].items():
            self.assertNotIn("secrets.", str(job))
            if name != "fetch":
                self.assertEqual(job["needs"], "fetch")
                # Where a maintainer can be made to approve it.
                self.assertEqual(job["environment"], name)
                self.assertNotIn("actions/checkout", str(job))


if __name__ == "__main__":
    unittest.main()
