"""The kinds of GitHub deliveries as data: CloudEvents GitHub adapter (cloudevents/adapters/github.md), one row a kind.

The adapter's text leaves a few things to the reader; what is chosen here:

* `repository_dispatch` and `repository_ruleset` have no dot before the action in the text; it is added, as everywhere.
* `status` has no state in its type: the text has it in doubt.
* `release` takes the time that its action names (`published_at`, `created_at`), else when it was published or created.
* `marketplace_purchase` takes `sender.url` without its last part, `security_advisory` the constant `github.com`.
* A kind that is not in the text (GitHub adds some) is read like most: action, `repository.url`, the current time.
* A value that the text names and a delivery does not have is left out: of the type with its dot, of `subject` with the
  attribute. A missing `source` becomes that of the nearest owner (`OWNERS`), since an event must have one.
"""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """Where a kind's attributes are in the body, as dotted paths.

    `parts` follow the kind's name in `type`; `source` is joined by "/"; `time` is the first that is there, else now.
    """

    parts: tuple[str, ...] = ("action",)
    source: tuple[str, ...] = ("repository.url",)
    subject: str = ""
    time: tuple[str, ...] = ()


OWNERS = ("repository.url", "organization.url", "installation.account.url", "sender.url")
"""Where a delivery's source is looked for that lacks its own."""

KINDS = {
    "branch_protection_configuration": Kind(),
    "branch_protection_rule": Kind(subject="rule.id", time=("rule.updated_at",)),
    "check_run": Kind(subject="check_run.id", time=("check_run.completed_at", "check_run.started_at")),
    "check_suite": Kind(subject="check_suite.id", time=("check_suite.updated_at",)),
    "code_scanning_alert": Kind(subject="alert.number"),
    "commit_comment": Kind(
        source=("comment.url", "comment.commit_id"), subject="comment.id", time=("comment.updated_at",)
    ),
    "content_reference": Kind(subject="content_reference.id"),
    "create": Kind(parts=("ref_type",), subject="ref"),
    "custom_property": Kind(subject="definition.property_name"),
    "custom_property_values": Kind(),
    "delete": Kind(parts=("ref_type",), subject="ref"),
    "dependabot_alert": Kind(subject="alert.id"),
    "deploy_key": Kind(subject="key.id", time=("key.deleted_at", "key.created_at")),
    "deployment": Kind(parts=(), subject="deployment.id", time=("deployment.updated_at",)),
    "deployment_protection_rule": Kind(source=("deployment.url",), subject="deployment.id"),
    "deployment_review": Kind(source=("deployment.url",), subject="workflow_run.id"),
    "deployment_status": Kind(
        parts=("deployment_status.state",),
        source=("deployment.url",),
        subject="deployment_status.url",
        time=("deployment_status.updated_at",),
    ),
    "discussion": Kind(subject="discussion.id"),
    "discussion_comment": Kind(subject="discussion.id", time=("comment.updated_at",)),
    "fork": Kind(parts=(), subject="forkee.url", time=("forkee.created_at",)),
    "github_app_authorization": Kind(parts=(), source=("sender.url",)),
    "gollum": Kind(parts=()),
    "installation": Kind(
        source=("installation.account.url",), subject="installation.id", time=("installation.updated_at",)
    ),
    "installation_repositories": Kind(
        source=("installation.account.url",), subject="installation.id", time=("installation.updated_at",)
    ),
    "installation_target": Kind(source=("installation.account.url",), subject="installation.id"),
    "issue_comment": Kind(source=("issue.url",), subject="comment.id", time=("comment.updated_at",)),
    "issues": Kind(subject="issue.number", time=("issue.updated_at",)),
    "label": Kind(subject="label.name"),
    "marketplace_purchase": Kind(
        source=("sender.url",), subject="marketplace_purchase.account.login", time=("effective_date",)
    ),
    "member": Kind(subject="member.login"),
    "membership": Kind(parts=("scope", "action"), source=("team.url",), subject="member.login"),
    "merge_group": Kind(subject="merge_group.head_ref"),
    "meta": Kind(subject="hook_id", time=("hook.updated_at",)),
    "milestone": Kind(subject="milestone.number", time=("milestone.updated_at",)),
    "organization": Kind(source=("organization.url",), subject="membership.user.login"),
    "org_block": Kind(source=("organization.url",), subject="blocked_user.login"),
    "package": Kind(subject="package.id", time=("package.updated_at", "package.created_at")),
    "page_build": Kind(parts=(), subject="build.url", time=("pusher.updated_at",)),
    "project_card": Kind(subject="project_card.id", time=("project_card.updated_at",)),
    "project_column": Kind(subject="project_column.id", time=("project_column.updated_at",)),
    "project": Kind(subject="project.id", time=("project.updated_at",)),
    "projects_v2": Kind(subject="projects_v2.id", time=("projects_v2.updated_at",)),
    "projects_v2_item": Kind(subject="projects_v2_item.id", time=("projects_v2_item.updated_at",)),
    "projects_v2_status_update": Kind(
        subject="projects_v2_status_update.id", time=("projects_v2_status_update.updated_at",)
    ),
    "public": Kind(
        parts=(), source=("repository.owner.url",), subject="repository.name", time=("repository.updated_at",)
    ),
    "pull_request": Kind(subject="number", time=("pull_request.updated_at",)),
    "pull_request_review": Kind(source=("pull_request.url",), subject="review.id", time=("review.submitted_at",)),
    "pull_request_review_comment": Kind(
        source=("pull_request.url",), subject="comment.id", time=("pull_request.updated_at",)
    ),
    "pull_request_review_thread": Kind(source=("pull_request.url",), subject="pull_request.id"),
    "push": Kind(parts=(), subject="ref"),
    "registry_package": Kind(subject="registry_package.html_url", time=("registry_package.updated_at",)),
    "release": Kind(subject="release.id", time=("release.{action}_at", "release.published_at", "release.created_at")),
    "repository": Kind(source=("repository.owner.url",), subject="repository.name", time=("repository.updated_at",)),
    "repository_advisory": Kind(subject="repository_advisory.ghsa_id", time=("repository_advisory.updated_at",)),
    "repository_dispatch": Kind(source=("repository.owner.url",)),
    "repository_import": Kind(
        parts=(), source=("repository.owner.url",), subject="repository.name", time=("repository.updated_at",)
    ),
    "repository_ruleset": Kind(
        source=("repository.owner.url",), subject="repository.name", time=("repository.updated_at",)
    ),
    "repository_vulnerability_alert": Kind(subject="alert.id"),
    "secret_scanning_alert": Kind(subject="alert.number", time=("alert.updated_at", "alert.created_at")),
    "secret_scanning_alert_location": Kind(subject="alert.number", time=("alert.updated_at", "alert.created_at")),
    "security_advisory": Kind(source=(), subject="security_advisory.ghsa_id", time=("security_advisory.updated_at",)),
    "security_and_analysis": Kind(parts=()),
    "sponsorship": Kind(subject="sponsorship.sponsor.login"),
    "star": Kind(time=("starred_at",)),
    "status": Kind(parts=(), subject="sha", time=("updated_at",)),
    "team": Kind(subject="team.id", time=("updated_at",)),
    "team_add": Kind(subject="team.id"),
    "watch": Kind(),
    "workflow_dispatch": Kind(parts=(), subject="workflow"),
    "workflow_job": Kind(subject="workflow_job.name"),
    "workflow_run": Kind(subject="workflow.name"),
}
