import recipes

try:
    recipes.connect("sqlite:///srv/app/locks.db", require={"fencing", "many_machines"})
except recipes.TooWeak as refused:
    print(refused)

client = recipes.connect("etcd://127.0.0.1:2379/app", require={"fencing", "linearizable"})
print("it survives", client.guarantees.survives)
