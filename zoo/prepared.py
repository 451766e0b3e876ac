"""What the process holds from which attempts are forked: the entries, and what two exports leave."""

from zoo.attempt import prepare

prepare()
