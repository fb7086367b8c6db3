export RECIPES_STORE=sqlite:///tmp/app.db # in earnest: etcd:// or zookeeper://, the same on all machines

cat > nightly.sh << 'END'
done=/tmp/nightly-$(date +%F).done
[ -e "$done" ] && { echo "was done before"; exit; }
echo "the report is made, under token $RECIPES_TOKEN"
touch "$done"
END

recipes run nightly --try -- sh nightly.sh || [ $? -eq 124 ]
recipes run nightly --try -- sh nightly.sh || [ $? -eq 124 ]
