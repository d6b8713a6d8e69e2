package oracle;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Dispatches {@code COMMAND --option ...}; see the README for what each command does. */
public final class Main {
    interface Command {
        int run(List<String> argv) throws Exception;
    }

    private static final Map<String, Command> COMMANDS = new LinkedHashMap<>();

    static {
        COMMANDS.put("clean", CleanCommand::run);
        COMMANDS.put("plan", PlanCommand::run);
        COMMANDS.put("retain", RetainCommand::run);
        COMMANDS.put("roll", RollCommand::run);
        COMMANDS.put("dump", DumpCommand::run);
        COMMANDS.put("verify", VerifyCommand::run);
        COMMANDS.put("bench", BenchCommand::run);
        COMMANDS.put("generate", GenerateCommand::run);
        COMMANDS.put("broker", BrokerCommand::run);
        COMMANDS.put("describe-broker", DescribeBrokerCommand::run);
        COMMANDS.put("broker-check", BrokerCheckCommand::run);
        COMMANDS.put("broker-life", BrokerLifeCommand::run);
        COMMANDS.put("produce", ProduceCommand::run);
        COMMANDS.put("consume", ConsumeCommand::run);
        COMMANDS.put("serve", ServeCommand::run);
        COMMANDS.put("tool", ToolCommand::run);
    }

    private Main() {
    }

    public static void main(String[] argv) {
        int rc;
        if (argv.length == 0 || !COMMANDS.containsKey(argv[0])) {
            System.err.println("usage: oracle.Main " + String.join("|", COMMANDS.keySet()) + " --option ...");
            rc = 2;
        } else {
            try {
                rc = COMMANDS.get(argv[0]).run(Arrays.asList(argv).subList(1, argv.length));
            } catch (Args.UsageException e) {
                System.err.println("oracle: " + e.getMessage());
                rc = 2;
            } catch (Throwable e) {
                e.printStackTrace();
                rc = 1;
            }
        }
        System.out.flush();
        System.exit(rc);
    }
}
