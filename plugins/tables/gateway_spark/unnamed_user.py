"""Spark under a user id without an entry in the password file, as OpenShift and Kubernetes' `runAsUser` give to a
container. Java takes "?" for the home of such a user, and Hadoop refuses to start without a user's name."""

from __future__ import annotations

import os
import pwd
import shlex
from typing import Any

NAME = "tidegate"
"""Whom Hadoop takes the user for, unless `HADOOP_USER_NAME` is set."""


def unnamed() -> bool:
    """Whether this process runs as such a user."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return True
    return False


def options() -> str:
    """The option of the JVM that gives the user a home; "" for a user who has one."""
    home = os.environ.get("HOME", "")
    if not home.startswith("/") or shlex.quote(home) != home:  # options are separated by spaces
        home = "/"
    return f"-Duser.home={home}" if unnamed() else ""


def name_user(jvm: Any) -> None:
    """Names the user in a JVM that has no Spark context yet, unless something else did, such as a Kerberos login."""
    if not unnamed():
        return
    from py4j.protocol import Py4JJavaError

    users = jvm.org.apache.hadoop.security.UserGroupInformation
    try:
        users.getLoginUser()
    except Py4JJavaError:
        users.setLoginUser(users.createRemoteUser(os.environ.get("HADOOP_USER_NAME") or NAME))
