"""A grid of one's own making, for tests of messages."""

import itertools

from flwr.app import ConfigRecord, Message, RecordDict


def nothing():
    pass


class Post:
    """A grid that answers one message a pull: ``pick`` chooses among the ids asked."""

    def __init__(self, pick=lambda ids: ids[:1]):
        self.pick, self.waiting, self.pushed = pick, {}, []
        self._ids = itertools.count()

    def push_messages(self, messages):
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"m{next(self._ids)}"
            self.waiting[message.metadata.message_id] = message
            self.pushed.append(message.metadata.dst_node_id)
            ids.append(message.metadata.message_id)
        return ids

    def pull_messages(self, ids):
        here = [i for i in ids if i in self.waiting]
        return [self.answer(self.waiting.pop(i)) for i in self.pick(here)]

    def answer(self, message):
        node = message.metadata.dst_node_id
        content = RecordDict({"from": ConfigRecord({"node": node})})
        return Message(content, reply_to=message)
