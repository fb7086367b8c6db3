mkdir -p zookeeper
cat > zookeeper/zoo.cfg << END
dataDir=$PWD/zookeeper/data
clientPort=2181
tickTime=2000
admin.enableServer=false
END
ZOO_LOG_DIR=$PWD/zookeeper zkServer.sh start-foreground "$PWD/zookeeper/zoo.cfg"
