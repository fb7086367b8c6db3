import recipes

with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    orders = client.counter("orders", start=1000)

    print("your order has the number", orders.add())  # 1001, and no other call returns that
    print("two more:", orders.add(2))

    if orders.set_if(0, expected=1003):
        print("begins again at", orders.get())
