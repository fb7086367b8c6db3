from tooz import coordination

coordinator = coordination.get_coordinator("etcd3+http://127.0.0.1:2379?api_version=v3", b"worker-1")
coordinator.start(start_heart=True)  # a thread that renews
lock = coordinator.get_lock(b"reports")
if lock.acquire(blocking=5):
    try:
        print("the report is made; acquired:", lock.acquired)
    finally:
        lock.release()
coordinator.stop()
