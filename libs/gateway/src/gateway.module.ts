import { Module, type DynamicModule } from '@nestjs/common';
import { ApiAccess } from './api-access.js';
import { Gateway } from './gateway.js';
import { RunsController } from './runs.controller.js';

@Module({})
export class GatewayModule {
  static of(gateway: Gateway): DynamicModule {
    return {
      module: GatewayModule,
      controllers: [RunsController],
      providers: [{ provide: Gateway, useValue: gateway }, ApiAccess],
    };
  }
}
