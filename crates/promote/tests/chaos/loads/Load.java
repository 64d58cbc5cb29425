import java.util.*;
import java.util.concurrent.atomic.*;

/** Threads that fill and hash trees, with garbage all the time; checks all answers. */
public class Load {
    static long answer(int seed) {
        var map = new TreeMap<Integer, String>();
        var random = new Random(seed);
        for (int i = 0; i < 500; i++) map.merge(random.nextInt(500), "x", String::concat);
        return map.hashCode();
    }

    public static void main(String[] arguments) throws Exception {
        var done = new AtomicLong();
        for (int t = 0; t < 3; t++) {
            int seed = t;
            long right = answer(seed);
            var thread = new Thread(() -> {
                while (true) {
                    if (answer(seed) != right) {
                        System.out.println("wrong: a tree");
                        System.exit(1);
                    }
                    done.incrementAndGet();
                    try { Thread.sleep(1); } catch (InterruptedException error) { System.out.println("wrong: " + error); }
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        while (done.get() < 500) Thread.sleep(1);
        System.out.println("ready");
        var input = new Scanner(System.in);
        while (input.hasNextLine()) {
            input.nextLine();
            for (long seen = done.get(); done.get() < seen + 6;) Thread.sleep(1);
            System.out.println("ok " + done.get());
        }
    }
}
