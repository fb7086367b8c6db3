redis-cli ACL SETUSER reports on ">$(cat password)" \
    resetkeys "~app:*" "~{app:*" resetchannels "&app:~bell:*" "&__redis__:invalidate" \
    nocommands +eval +evalsha +info +ping +time +wait +select +scan \
    +subscribe +publish +client\|id +client\|tracking \
    +set +setnx +get +del +exists +type +pexpire +pexpireat +pttl +persist \
    +hset +hget +hmget +hdel +hexists \
    +zadd +zrem +zcount +zrange +zrank +zscore \
    +zrangebyscore +zrevrangebyscore +zrangebylex +zremrangebylex
