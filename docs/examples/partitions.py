import recipes

STORE = "etcd://127.0.0.1:2379/app"
SHARDS = [f"shard-{number}" for number in range(8)]

with recipes.connect(STORE) as client, client.group("indexers").join(id="a") as membership:
    mine = membership.partitions(SHARDS)
    assignment = next(mine)
    print(f"alone: all {len(assignment)}, shard-3 under token {assignment['shard-3'].token}")

    # A second member: as a rule in another process.
    with recipes.connect(STORE) as other, other.group("indexers").join(id="b") as second:
        theirs = second.partitions(SHARDS)
        print(f"the second begins with {len(next(theirs))}")

        assignment = next(mine)
        moving = assignment.leaving
        print(f"{len(assignment)} stay, and these move:", *moving)
        print("held until the work on them has ended:", all(grant.held for grant in moving.values()))

        mine.next(timeout=0)  # on with the iteration: what was leaving is released
        share = {}
        while len(share) < len(moving):
            share = next(theirs)
        print("the second has", *share)

    while len(assignment) < len(SHARDS):
        assignment = next(mine)
    print("and when it has left, all are back:", len(assignment))
