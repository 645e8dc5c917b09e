"""Mistakes in writing files whole or not at all."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="broken_off_files_stay",
        file="files.py",
        old="temporary.unlink(missing_ok=True)",
        new="temporary.exists()",
        seen="folders fill with halves of files",
        tests=("test_files_and_tensors.py::test_what_breaks_off_leaves_the_old_file_and_nothing_else",),
    ),
    Mutant(
        name="failures_are_swallowed",
        file="files.py",
        old=("        temporary.unlink(missing_ok=True)\n        raise\n"),
        new=("        temporary.unlink(missing_ok=True)\n"),
        seen="a report that could not be written is said to be there",
        tests=("test_files_and_tensors.py::test_what_breaks_off_leaves_the_old_file_and_nothing_else",),
    ),
    Mutant(
        name="files_appear_before_they_are_complete",
        file="files.py",
        old=("        yield temporary\n"),
        new=("        yield target\n"),
        seen="half a report stands in place of the old one",
        tests=("test_files_and_tensors.py::test_what_breaks_off_leaves_the_old_file_and_nothing_else",),
    ),
    Mutant(
        name="headers_are_lost",
        file="files.py",
        old="return file.metadata() or {}, {name",
        new="return {}, {name",
        seen="a stored model forgets its settings",
        tests=("test_files_and_tensors.py::test_tensors_come_back_with_their_header",),
    ),
    Mutant(
        name="groups_by_beginning_alone",
        file="files.py",
        old='if key.startswith(f"{name}/")',
        new="if key.startswith(name)",
        seen="tensors of another group with a similar name",
        tests=("test_files_and_tensors.py::test_groups_are_told_by_their_whole_name",),
    ),
    Mutant(
        name="unreadable_files_are_a_traceback",
        file="files.py",
        old="except (SafetensorError, OSError, TypeError, ValueError) as error:",
        new="except (OSError, TypeError) as error:",
        seen="a damaged model file ends in a traceback",
        tests=("test_files_and_tensors.py::test_damaged_tensors_are_one_sentence",),
    ),
]
