"""etcd's messages as protobuf's own library has them, and its calls by name; the package has others."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

__all__ = ["CALLS", "MESSAGES", "in_json"]

# From etcd's rpc.proto and kv.proto: the messages of these calls, with all fields that a server may send.
PROTO = """
KeyValue: bytes key=1, int64 create_revision=2, int64 mod_revision=3, int64 version=4, bytes
  value=5, int64 lease=6
ResponseHeader: uint64 cluster_id=1, uint64 member_id=2, int64 revision=3, uint64 raft_term=4
RangeRequest: bytes key=1, bytes range_end=2, int64 limit=3, int64 revision=4, int32 sort_order=5,
  int32 sort_target=6, bool serializable=7, bool keys_only=8, bool count_only=9, int64
  max_create_revision=13
RangeResponse: ResponseHeader header=1, *KeyValue kvs=2, bool more=3, int64 count=4
PutRequest: bytes key=1, bytes value=2, int64 lease=3, bool prev_kv=4
PutResponse: ResponseHeader header=1, KeyValue prev_kv=2
DeleteRangeRequest: bytes key=1, bytes range_end=2, bool prev_kv=3
DeleteRangeResponse: ResponseHeader header=1, int64 deleted=2
RequestOp: RangeRequest request_range=1, PutRequest request_put=2, DeleteRangeRequest
  request_delete_range=3
ResponseOp: RangeResponse response_range=1, PutResponse response_put=2, DeleteRangeResponse
  response_delete_range=3
Compare: int32 result=1, int32 target=2, bytes key=3, int64 version=4, int64 create_revision=5,
  int64 mod_revision=6, bytes value=7, bytes range_end=64
TxnRequest: *Compare compare=1, *RequestOp success=2, *RequestOp failure=3
TxnResponse: ResponseHeader header=1, bool succeeded=2, *ResponseOp responses=3
LeaseGrantRequest: int64 TTL=1, int64 ID=2
LeaseGrantResponse: ResponseHeader header=1, int64 ID=2, int64 TTL=3, string error=4
LeaseRevokeRequest: int64 ID=1
LeaseRevokeResponse: ResponseHeader header=1
LeaseKeepAliveRequest: int64 ID=1
LeaseKeepAliveResponse: ResponseHeader header=1, int64 ID=2, int64 TTL=3
AuthenticateRequest: string name=1, string password=2
AuthenticateResponse: ResponseHeader header=1, string token=2
WatchCreateRequest: bytes key=1, bytes range_end=2, int64 start_revision=3, *int32 filters=5, int64
  watch_id=7
WatchCancelRequest: int64 watch_id=1
WatchProgressRequest: bool nothing=1
WatchRequest: WatchCreateRequest create_request=1, WatchCancelRequest cancel_request=2,
  WatchProgressRequest progress_request=3
Event: int32 type=1, KeyValue kv=2, KeyValue prev_kv=3
WatchResponse: ResponseHeader header=1, int64 watch_id=2, bool created=3, bool canceled=4, int64
  compact_revision=5, string cancel_reason=6, bool fragment=7, *Event events=11
"""
KINDS = {"bool": 8, "bytes": 12, "int32": 5, "int64": 3, "string": 9, "uint64": 4}
MESSAGE, ONE, MANY = 11, 1, 3


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="etcd.proto", package="e", syntax="proto3")
    for line in PROTO.strip().replace("\n  ", " ").splitlines():
        name, _, fields = line.partition(": ")
        message = file.message_type.add(name=name)
        for field in fields.split(", "):
            kind, _, rest = field.strip().partition(" ")
            called, _, number = rest.partition("=")
            made = message.field.add(name=called, number=int(number), label=MANY if kind[0] == "*" else ONE)
            kind = kind.lstrip("*")
            if kind in KINDS:
                made.type = KINDS[kind]
            else:
                made.type, made.type_name = MESSAGE, f".e.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = message_factory.GetMessageClassesForFiles(["etcd.proto"], pool)
    return {name.removeprefix("e."): made for name, made in found.items()}


MESSAGES = _messages()
"""The classes of all messages, by their names."""

CALLS = {
    "/etcdserverpb.KV/Range": ("/v3/kv/range", "RangeRequest"),
    "/etcdserverpb.KV/Put": ("/v3/kv/put", "PutRequest"),
    "/etcdserverpb.KV/Txn": ("/v3/kv/txn", "TxnRequest"),
    "/etcdserverpb.KV/DeleteRange": ("/v3/kv/deleterange", "DeleteRangeRequest"),
    "/etcdserverpb.Lease/LeaseGrant": ("/v3/lease/grant", "LeaseGrantRequest"),
    "/etcdserverpb.Lease/LeaseKeepAlive": ("/v3/lease/keepalive", "LeaseKeepAliveRequest"),
    "/etcdserverpb.Lease/LeaseRevoke": ("/v3/lease/revoke", "LeaseRevokeRequest"),
    "/etcdserverpb.Auth/Authenticate": ("/v3/auth/authenticate", "AuthenticateRequest"),
    "/etcdserverpb.Watch/Watch": ("/v3/watch", "WatchRequest"),
}
"""The path that the gateway has for each call, and the message that is sent."""


def in_json(name: str, message: bytes) -> bytes:
    """Return a message as the gateway takes it, so that one reader can judge both."""
    document = json_format.MessageToDict(MESSAGES[name].FromString(message), preserving_proto_field_name=True)
    return json.dumps(document).encode()
