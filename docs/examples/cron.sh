export RECIPES_STORE=sqlite://./locks.db # for several machines: a URL of a server
export DAY=$(date +%F)

cat > nightly.sh << 'END'
[ -e "nightly-$DAY.done" ] && { echo "was done before"; exit; }
echo "the report of $DAY is made, under token $RECIPES_TOKEN"
touch "nightly-$DAY.done"
END

recipes run nightly --try -- sh nightly.sh || [ $? -eq 124 ]
recipes run nightly --try -- sh nightly.sh || [ $? -eq 124 ]
