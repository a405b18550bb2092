"""Prints the messages of an MCAP file as JSON lines, and then its statistics; checks checksums and indices."""

import json
import sys

from mcap.reader import make_reader

with open(sys.argv[1], "rb") as file:
    reader = make_reader(file, validate_crcs=True)
    for schema, channel, message in reader.iter_messages():
        assert (schema.encoding, channel.message_encoding) == ("jsonschema", "json")
        json.loads(schema.data)
        line = {
            "topic": channel.topic,
            "units": channel.metadata["units"],
            "sequence": message.sequence,
            "log_ns": message.log_time,
            "publish_ns": message.publish_time,
            "message": json.loads(message.data),
        }
        print(json.dumps(line))
    statistics = reader.get_summary().statistics
    print(json.dumps({"messages": statistics.message_count, "channels": statistics.channel_count}))
