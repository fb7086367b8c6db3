export RECIPES_STORE=sqlite:///tmp/app.db

recipes elect scheduler --value one -- \
  sh -c 'echo "one leads, token $RECIPES_TOKEN"; exec sleep 600' &
one=$!
until recipes who scheduler --of election | grep -q "leads *one"; do sleep 0.1; done
recipes elect scheduler --value two -- \
  sh -c 'echo "two leads, token $RECIPES_TOKEN"; exec sleep 600' &
two=$!
until recipes who scheduler --of election | grep -q "1 *two"; do sleep 0.1; done

recipes who scheduler --of election # one leads, and two is next
kill $one                           # its command ends, it resigns, and two leads
wait $one || echo "exit code $?"
until recipes who scheduler --of election | grep -q "leads *two"; do sleep 0.1; done
kill $two
wait $two || true
