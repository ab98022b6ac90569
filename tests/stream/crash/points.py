"""Where a run can be made to die, step by step."""

IN_DRIVER = (
    "claim.before",
    "claim.after",
    "round.planned",
    "round.job-done",
    "commit.before",
    "commit.after",
)
IN_TASKS = ("task.fetched", "task.written")
