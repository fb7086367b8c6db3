import recipes

with recipes.connect("zookeeper://127.0.0.1:2181/app") as client:
    election = client.election("scheduler")

    with election.campaign("host-1:8000", timeout=10) as leadership:  # waits until elected
        print(f"{leadership.value} leads under token {leadership.token}")
        leadership.proclaim("host-1:8001")
        print("all others see", election.leader())

    with election.observe() as leaders:  # the leader now, then every change
        print("it has resigned:", next(leaders))
